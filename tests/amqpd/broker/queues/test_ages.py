"""Ages: runs of deliveries, samples of times in queues."""

from __future__ import annotations

from math import inf

from amqpd.broker.queues.ages import NO_AGE, NO_TIME, QueueAges, TimesInQueue


def ages() -> QueueAges:
    return QueueAges(TimesInQueue())


def deliver(found: QueueAges, now_ms: int, enqueued_ms: int) -> None:
    found.run(now_ms, enqueued_ms).count += 1


def test_nothing_delivered_has_no_age() -> None:
    found = ages()
    assert found.oldest_unacked_age(1000) == NO_AGE
    assert found.oldest_delivery_age(1000) == NO_AGE


def test_the_oldest_delivery_is_the_first_that_has_something_unacked() -> None:
    found = ages()
    first = found.run(100, 50)
    first.count = 2
    deliver(found, 200, 60)
    assert found.oldest_delivery_age(1000) == 900
    first.count = 0
    assert found.oldest_delivery_age(1000) == 800


def test_the_oldest_message_need_not_have_been_delivered_first() -> None:
    found = ages()
    deliver(found, 100, 50)
    deliver(found, 200, 20)
    assert found.oldest_unacked_age(1000) == 980


def test_what_is_delivered_in_the_same_millisecond_is_one_run() -> None:
    found = ages()
    assert found.run(100, 50) is found.run(100, 70)
    deliver(found, 100, 30)
    assert found.run_count == 1
    assert found.oldest_unacked_age(100) == 70


def test_a_run_that_nothing_is_left_of_does_not_make_others_older() -> None:
    found = ages()
    run = found.run(100, 10)
    run.count += 1
    run.count -= 1
    deliver(found, 100, 90)
    assert found.oldest_unacked_age(110) == 20


def test_a_clock_that_goes_back_makes_no_age_below_0() -> None:
    found = ages()
    deliver(found, 100, 100)
    assert found.oldest_unacked_age(50) == 0
    assert found.oldest_delivery_age(50) == 0
    found.note_left(50, 100)
    assert found.mean_time_ms == 0


def test_one_that_is_never_acked_does_not_keep_the_runs_after_it() -> None:
    found = ages()
    deliver(found, 0, 0)
    for now_ms in range(1, 10_000):
        run = found.run(now_ms, now_ms)
        run.count += 1
        run.count -= 1
    assert found.run_count < 200
    assert found.oldest_delivery_age(10_000) == 10_000


def test_runs_that_are_all_unacked_are_all_kept() -> None:
    found = ages()
    for now_ms in range(1000):
        deliver(found, now_ms, now_ms)
    assert found.run_count == 1000
    found.clear()
    assert found.oldest_unacked_age(1000) == NO_AGE


def test_samples_are_counted_by_queue_and_by_how_long() -> None:
    times = TimesInQueue()
    one, other = QueueAges(times), QueueAges(times)
    one.note_left(1000, 1000)
    one.note_left(1000, 994)
    other.note_left(10**9, 0)
    assert (one.mean_time_ms, other.mean_time_ms) == (3, 10**9)
    assert ages().mean_time_ms == 0
    within = dict(times.within())
    assert (within[0.001], within[0.005], within[0.01]) == (1, 1, 2)
    assert (within[86400.0], within[inf]) == (2, 3)
    assert times.total_ms == 10**9 + 6


def test_what_was_sent_on_without_being_in_the_queue_was_there_for_no_time() -> None:
    times = TimesInQueue()
    found = QueueAges(times)
    assert found.passed_ms == NO_TIME
    found.note_passed(100)
    assert (found.left_count, found.left_total_ms) == (1, 0)
    assert (times.count, times.total_ms) == (1, 0)
    assert found.passed_ms == 100
