"""When heartbeats are sent and when a peer is lost, on a clock of numbers."""

import pytest

from amqpd.protocol.heartbeat import (
    HEARTBEAT_SIZE,
    NEVER_MS,
    Heartbeat,
    HeartbeatDue,
)
from amqpd.wire.frames import HEARTBEAT_FRAME


def events(
    heartbeat: Heartbeat, times: range, bytes_in: int = 0, bytes_out: int = 0
) -> list[tuple[int, HeartbeatDue]]:
    """Ask at all these times with a socket that carries only our heartbeats."""
    seen: list[tuple[int, HeartbeatDue]] = []
    for now_ms in times:
        due = heartbeat.on_time(now_ms, bytes_in, bytes_out)
        if due is HeartbeatDue.SEND:
            bytes_out += HEARTBEAT_SIZE
        if due is not HeartbeatDue.NOTHING:
            seen.append((now_ms, due))
        if due is HeartbeatDue.LOST:
            break
    return seen


def test_our_own_heartbeat_has_the_size_that_is_expected_of_it() -> None:
    assert len(HEARTBEAT_FRAME) == HEARTBEAT_SIZE


def test_an_interval_of_zero_switches_everything_off() -> None:
    heartbeat = Heartbeat(0, now_ms=1000)

    heartbeat.watch_again(2000)

    assert heartbeat.next_due_ms == NEVER_MS
    assert heartbeat.on_time(10**9, 0, 0) is HeartbeatDue.NOTHING


def test_an_idle_connection_sends_every_half_interval_and_loses_a_silent_peer() -> None:
    heartbeat = Heartbeat(10, now_ms=0)

    assert events(heartbeat, range(0, 60_000, 1000)) == [
        (5_000, HeartbeatDue.SEND),
        (10_000, HeartbeatDue.SEND),
        (15_000, HeartbeatDue.SEND),
        (20_000, HeartbeatDue.LOST),
    ]


def test_nothing_is_due_before_half_an_interval() -> None:
    heartbeat = Heartbeat(10, now_ms=7)

    assert heartbeat.next_due_ms == 5_007
    assert heartbeat.on_time(5_006, 0, 0) is HeartbeatDue.NOTHING
    assert heartbeat.on_time(5_007, 0, 0) is HeartbeatDue.SEND
    assert heartbeat.next_due_ms == 10_007


def test_the_shortest_interval_is_a_second() -> None:
    heartbeat = Heartbeat(1, now_ms=0)

    heartbeat.watch_again(100)

    assert events(heartbeat, range(0, 5_000, 100)) == [
        (500, HeartbeatDue.SEND),
        (1_000, HeartbeatDue.SEND),
        (1_500, HeartbeatDue.SEND),
        (2_000, HeartbeatDue.SEND),
        (2_100, HeartbeatDue.LOST),
    ]


def test_no_heartbeat_is_sent_when_something_else_was() -> None:
    heartbeat = Heartbeat(10, now_ms=0)

    assert heartbeat.on_time(5_000, 1, 100) is HeartbeatDue.NOTHING
    assert heartbeat.on_time(10_000, 2, 100) is HeartbeatDue.SEND


@pytest.mark.parametrize("received", [1, 8, 1_000_000])
def test_any_received_byte_keeps_the_peer(received: int) -> None:
    heartbeat = Heartbeat(10, now_ms=0)
    bytes_in = 0

    for now_ms in range(10_000, 200_000, 10_000):
        # A byte every second look is enough.
        bytes_in += received if now_ms % 20_000 == 0 else 0
        assert heartbeat.on_time(now_ms, bytes_in, now_ms) is HeartbeatDue.NOTHING


def test_one_silent_look_is_forgiven_and_forgotten() -> None:
    heartbeat = Heartbeat(10, now_ms=0)

    assert heartbeat.on_time(10_000, 0, 1) is HeartbeatDue.NOTHING
    assert heartbeat.on_time(20_000, 1, 2) is HeartbeatDue.NOTHING
    assert heartbeat.on_time(30_000, 1, 3) is HeartbeatDue.NOTHING
    assert heartbeat.on_time(40_000, 1, 4) is HeartbeatDue.LOST


def test_a_broker_that_was_busy_for_long_looks_once_and_not_once_per_interval() -> None:
    heartbeat = Heartbeat(2, now_ms=0)

    assert heartbeat.on_time(60_000, 0, 1) is HeartbeatDue.NOTHING
    assert heartbeat.on_time(60_001, 0, 2) is HeartbeatDue.NOTHING
    assert heartbeat.on_time(62_000, 0, 3) is HeartbeatDue.LOST


def test_an_unwatched_peer_is_not_lost_but_still_gets_heartbeats() -> None:
    heartbeat = Heartbeat(10, now_ms=0)
    heartbeat.stop_watching()

    seen = events(heartbeat, range(0, 100_000, 1000))

    assert {due for _, due in seen} == {HeartbeatDue.SEND}
    assert len(seen) == 19


def test_a_peer_watched_again_has_two_whole_intervals() -> None:
    heartbeat = Heartbeat(10, now_ms=0)
    assert heartbeat.on_time(10_000, 0, 1) is HeartbeatDue.NOTHING
    heartbeat.stop_watching()

    heartbeat.watch_again(15_000)

    lost = events(heartbeat, range(15_000, 60_000, 1000))[-1]
    assert lost == (35_000, HeartbeatDue.LOST)
