"""The age of the oldest wait: of those in a step, and of those in none."""

from amqpd.net.wait_age import WaitAge


def test_nobody_has_waited() -> None:
    assert WaitAge().age_ms(1000) == 0


def test_the_first_who_waits_is_the_oldest() -> None:
    age = WaitAge()
    age.on_wanted(1000)
    age.on_wanted(1010)
    assert age.age_ms(1030) == 30


def test_who_is_in_a_step_waits_until_it_is_back() -> None:
    age = WaitAge()
    age.on_wanted(1000)
    age.on_begun(is_wanted=False)
    age.on_wanted(1010)
    assert age.age_ms(1030) == 30
    age.on_done(is_wanted=True)
    assert age.age_ms(1030) == 20


def test_a_step_that_takes_nobody_does_not_change_the_age() -> None:
    age = WaitAge()
    age.on_wanted(1000)
    age.on_begun(is_wanted=True)
    age.on_done(is_wanted=True)
    assert age.age_ms(1030) == 30


def test_who_is_told_with_an_earlier_step_does_not_wait() -> None:
    age = WaitAge()
    age.on_begun(is_wanted=False)
    age.on_wanted(1010)
    age.on_done(is_wanted=False)
    assert age.age_ms(1030) == 0
