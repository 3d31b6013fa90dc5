"""Heartbeats: sent when nothing else is, and missed when nothing comes."""

from __future__ import annotations

import time
from contextlib import ExitStack

from pamqp import commands

from tests.support.raw_client import HEARTBEAT, HEARTBEAT_FRAME, Endpoint, RawClient


def test_the_broker_sends_heartbeats_on_an_idle_connection(broker: Endpoint) -> None:
    with RawClient(broker) as client:
        client.open(heartbeat=1)
        for _ in range(2):
            frame = client.receive_frame()
            assert (frame.kind, frame.channel, frame.payload) == (HEARTBEAT, 0, b"")


def test_who_is_silent_for_two_intervals_is_dropped_and_who_is_not_stays(
    broker: Endpoint,
) -> None:
    # All at the same time: what keeps one of them must outlast the one that is silent.
    with ExitStack() as stack:
        silent, beating, dribbling = (
            stack.enter_context(RawClient(broker)) for _ in range(3)
        )
        started = time.monotonic()
        for client in (silent, beating, dribbling):
            client.open(heartbeat=1).open_channel()
        silent.set_timeout(0.3)
        octets = 0
        while is_still_there(silent):
            beating.send_bytes(HEARTBEAT_FRAME)
            # Single octets count as well, though it takes eight of them.
            at = octets % len(HEARTBEAT_FRAME)
            dribbling.send_bytes(HEARTBEAT_FRAME[at : at + 1])
            octets += 1
        assert time.monotonic() - started >= 1
        # What was begun is ended: a frame, or one more.
        dribbling.send_bytes(HEARTBEAT_FRAME[octets % len(HEARTBEAT_FRAME) :])
        for client in (beating, dribbling):
            client.call(1, commands.Basic.Qos(), commands.Basic.QosOk)


def is_still_there(client: RawClient) -> bool:
    """Read for a moment; nothing but heartbeats may come before the end."""
    try:
        assert client.receive_frame().kind == HEARTBEAT
    except TimeoutError:
        return True
    except EOFError:
        return False
    return True


def test_without_a_heartbeat_interval_no_heartbeat_comes(broker: Endpoint) -> None:
    with RawClient(broker) as silent, RawClient(broker) as clock:
        silent.open(heartbeat=0).open_channel()
        clock.open(heartbeat=1)
        # Two of the other connection's are the time in which none may come here.
        for _ in range(2):
            assert clock.receive_frame().kind == HEARTBEAT
        silent.send_method(1, commands.Basic.Qos())
        assert isinstance(silent.receive_frame().method, commands.Basic.QosOk)
