"""Heartbeats: sent when nothing else is, and missed when nothing comes."""

from __future__ import annotations

import time

from pamqp import commands

from tests.support.raw_client import HEARTBEAT, HEARTBEAT_FRAME, Endpoint, RawClient


def test_the_broker_sends_heartbeats_on_an_idle_connection(broker: Endpoint) -> None:
    with RawClient(broker) as client:
        client.open(heartbeat=1)
        for _ in range(2):
            frame = client.receive_frame()
            assert (frame.kind, frame.channel, frame.payload) == (HEARTBEAT, 0, b"")


def test_a_client_that_is_silent_for_two_intervals_is_dropped_without_a_frame(
    broker: Endpoint,
) -> None:
    with RawClient(broker) as client:
        client.open(heartbeat=1)
        started = time.monotonic()
        client.expect_end()
        assert time.monotonic() - started >= 1


def test_heartbeats_of_the_client_keep_the_connection(broker: Endpoint) -> None:
    with RawClient(broker) as client:
        client.open(heartbeat=1).open_channel()
        # Each of the broker's heartbeats, two a second, is answered with one.
        for _ in range(7):
            assert client.receive_frame().kind == HEARTBEAT
            client.send_bytes(HEARTBEAT_FRAME)
        client.call(1, commands.Basic.Qos(), commands.Basic.QosOk)


def test_single_bytes_of_a_frame_keep_the_connection(broker: Endpoint) -> None:
    with RawClient(broker) as client:
        client.open(heartbeat=1).open_channel()
        for octet in HEARTBEAT_FRAME:
            assert client.receive_frame().kind == HEARTBEAT
            client.send_bytes(bytes([octet]))
        client.call(1, commands.Basic.Qos(), commands.Basic.QosOk)


def test_without_a_heartbeat_interval_no_heartbeat_comes(broker: Endpoint) -> None:
    with RawClient(broker) as silent, RawClient(broker) as clock:
        silent.open(heartbeat=0).open_channel()
        clock.open(heartbeat=1)
        # Two of the other connection's are the time in which none may come here.
        for _ in range(2):
            assert clock.receive_frame().kind == HEARTBEAT
        silent.send_method(1, commands.Basic.Qos())
        assert isinstance(silent.receive_frame().method, commands.Basic.QosOk)
