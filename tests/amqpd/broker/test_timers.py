"""Timers: what is due happens, in order, and the next time is told."""

from __future__ import annotations

from amqpd.broker.timers import CALLS_MAX, NEVER_MS, Timed, Timers


class Alarm(Timed):
    """Rings after a delay, again if told so, and notes when."""

    def __init__(self, delay_ms: int, again_ms: int = NEVER_MS) -> None:
        super().__init__()
        self.delay_ms = delay_ms
        self.again_ms = again_ms
        self.deadline_ms = 0
        self.rung: list[int] = []

    def on_start(self, now_ms: int) -> int:
        self.deadline_ms = now_ms + self.delay_ms
        return self.deadline_ms

    def on_due(self, now_ms: int) -> int:
        if now_ms < self.deadline_ms:
            return self.deadline_ms
        self.rung.append(now_ms)
        return now_ms + self.again_ms if self.again_ms < NEVER_MS else NEVER_MS


def started(timers: Timers, now_ms: int, *alarms: Alarm) -> None:
    for alarm in alarms:
        timers.start(alarm)
    timers.on_time(now_ms)


def test_without_anything_to_do_nobody_has_to_come_back() -> None:
    assert Timers().on_time(1000) == NEVER_MS


def test_a_clock_begins_with_the_next_call() -> None:
    timers, alarm = Timers(), Alarm(50)
    assert not timers.has_starting
    timers.start(alarm)
    assert timers.has_starting
    assert timers.on_time(1000) == 1050
    assert not timers.has_starting


def test_what_is_due_happens_once_and_not_before() -> None:
    timers, alarm = Timers(), Alarm(50)
    started(timers, 1000, alarm)
    assert timers.on_time(1049) == 1050
    assert alarm.rung == []
    assert timers.on_time(1050) == NEVER_MS
    assert timers.on_time(2000) == NEVER_MS
    assert alarm.rung == [1050]


def test_the_earliest_deadline_is_told() -> None:
    timers, late, early = Timers(), Alarm(90), Alarm(20)
    started(timers, 1000, late, early)
    assert timers.on_time(1001) == 1020
    assert timers.on_time(1020) == 1090
    assert (early.rung, late.rung) == ([1020], [])


def test_what_wants_to_be_called_again_is() -> None:
    timers, alarm = Timers(), Alarm(10, again_ms=5)
    started(timers, 1000, alarm)
    assert timers.on_time(1010) == 1015
    assert timers.on_time(1017) == 1022
    assert alarm.rung == [1010, 1017]


def test_a_clock_that_begins_anew_is_due_later() -> None:
    timers, alarm = Timers(), Alarm(50)
    started(timers, 1000, alarm)
    started(timers, 1030, alarm)
    assert timers.on_time(1050) == 1080
    assert alarm.rung == []
    assert timers.on_time(1080) == NEVER_MS
    assert alarm.rung == [1080]


def test_a_clock_that_is_brought_forward_is_due_earlier_and_once() -> None:
    timers, alarm = Timers(), Alarm(50)
    started(timers, 1000, alarm)
    alarm.delay_ms = 10
    started(timers, 1005, alarm)
    assert timers.on_time(1015) == 1050
    assert timers.on_time(1050) == NEVER_MS
    assert alarm.rung == [1015]


def test_a_clock_that_is_started_twice_before_a_call_starts_once() -> None:
    timers, alarm = Timers(), Alarm(50)
    started(timers, 1000, alarm, alarm)
    assert timers.on_time(1050) == NEVER_MS
    assert alarm.rung == [1050]


def test_a_clock_that_is_restarted_again_and_again_has_one_entry() -> None:
    timers, alarm = Timers(), Alarm(50)
    for now_ms in range(1000, 1040):
        started(timers, now_ms, alarm)
    # Every entry would be looked at, and they were more than one call's share.
    assert timers.on_time(1050) == 1089
    assert timers.on_time(1089) == NEVER_MS
    assert alarm.rung == [1089]


def test_one_call_does_a_bounded_amount_of_work() -> None:
    timers = Timers()
    alarms = [Alarm(10) for _ in range(CALLS_MAX + 3)]
    started(timers, 1000, *alarms)
    assert timers.on_time(1010) == 1010
    assert sum(len(alarm.rung) for alarm in alarms) == CALLS_MAX
    assert timers.on_time(1010) == NEVER_MS
    assert all(alarm.rung == [1010] for alarm in alarms)


def test_what_is_due_at_one_time_happens_in_the_order_of_starting() -> None:
    timers, order = Timers(), []

    class Named(Alarm):
        def __init__(self, name: str) -> None:
            super().__init__(10)
            self.name = name

        def on_due(self, now_ms: int) -> int:
            order.append(self.name)
            return NEVER_MS

    started(timers, 1000, Named("b"), Named("a"), Named("c"))
    timers.on_time(1010)
    assert order == ["b", "a", "c"]


def test_a_clock_that_starts_while_others_ring_asks_for_another_call() -> None:
    timers, follower = Timers(), Alarm(5)

    class Starter(Alarm):
        def on_due(self, now_ms: int) -> int:
            timers.start(follower)
            return NEVER_MS

    started(timers, 1000, Starter(10))
    assert timers.on_time(1010) == 1010
    assert timers.on_time(1010) == 1015
