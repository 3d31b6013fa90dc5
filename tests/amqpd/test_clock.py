"""The clock counts milliseconds since the epoch and never goes back."""

import time

from amqpd.clock import Clock


def test_it_begins_with_the_time_of_the_wall_clock() -> None:
    before = time.time_ns() // 1_000_000
    now = Clock().now_ms()
    after = time.time_ns() // 1_000_000
    assert before - 1 <= now <= after + 1


def test_it_never_goes_back() -> None:
    clock = Clock()
    readings = [clock.now_ms() for _ in range(1000)]
    assert readings == sorted(readings)


def test_two_readings_of_one_clock_differ_by_what_has_passed() -> None:
    clock = Clock()
    started, first = time.monotonic_ns(), clock.now_ms()
    while time.monotonic_ns() - started < 2_000_000:
        pass
    assert clock.now_ms() > first
