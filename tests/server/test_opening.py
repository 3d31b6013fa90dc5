"""From connection.tune to connection.open-ok: limits, vhosts, order of methods."""

from __future__ import annotations

import dataclasses
import struct

import pytest
from pamqp import base, commands

from tests.support.differences import Expectations
from tests.support.raw_client import (
    METHOD,
    Endpoint,
    RawClient,
    connection_closed,
    encode_start_ok,
    plain,
    shortstr,
)

FRAME_MAX = "NOT_ALLOWED - negotiated frame_max = "
CHANNEL_MAX = "NOT_ALLOWED - negotiated channel_max = "
TOO_HIGH = "is higher than the maximum allowed value"


@pytest.mark.parametrize(
    ("channel_max", "frame_max", "text"),
    [
        (2047, 4095, f"{FRAME_MAX}4095 is lower than the minimum allowed value (4096)"),
        (2047, 131073, f"{FRAME_MAX}131073 {TOO_HIGH} (131072)"),
        (2047, 0, f"{FRAME_MAX}0 {TOO_HIGH} (131072)"),
        (2048, 131072, f"{CHANNEL_MAX}2048 {TOO_HIGH} (2047)"),
        (0, 131072, f"{CHANNEL_MAX}0 (no limit) {TOO_HIGH} (2047)"),
    ],
)
def test_limits_out_of_range_are_530(
    stranger: RawClient,
    expectations: Expectations,
    channel_max: int,
    frame_max: int,
    text: str,
) -> None:
    stranger.login()
    tune_ok = commands.Connection.TuneOk(channel_max, frame_max, 0)
    stranger.send_method(0, tune_ok)
    ours = connection_closed(530, text, 10, 31)
    stranger.expect_refusal(expectations.of("handshake-error", ours))


@pytest.mark.parametrize(
    ("channel_max", "frame_max", "heartbeat"),
    [(2047, 131072, 60), (1, 4096, 0), (100, 5000, 600)],
)
def test_a_client_may_lower_the_limits_and_choose_its_heartbeat(
    stranger: RawClient, channel_max: int, frame_max: int, heartbeat: int
) -> None:
    stranger.open(frame_max, channel_max, heartbeat)
    stranger.open_channel(1)
    stranger.close()


@pytest.mark.parametrize("vhost", ["nope", ""])
def test_a_vhost_that_does_not_exist_is_530(stranger: RawClient, vhost: str) -> None:
    stranger.login()
    stranger.send_method(0, commands.Connection.TuneOk(2047, 131072, 0))
    arguments = shortstr(vhost.encode()) + b"\x00\x00"
    stranger.send_frame(METHOD, 0, struct.pack(">HH", 10, 40) + arguments)
    text = f"NOT_ALLOWED - vhost {vhost} not found"
    stranger.expect_refusal(connection_closed(530, text, 10, 40))


def test_a_vhost_without_permission_is_530(broker: Endpoint) -> None:
    limited = dataclasses.replace(broker, user="limited", password="limited")
    with RawClient(limited) as client:
        client.login()
        client.send_method(0, commands.Connection.TuneOk(2047, 131072, 0))
        client.send_method(0, commands.Connection.Open("forbidden"))
        text = "NOT_ALLOWED - access to vhost 'forbidden' refused for user 'limited'"
        client.expect_refusal(connection_closed(530, text, 10, 40))


def test_tune_ok_before_start_ok_is_504(
    stranger: RawClient, expectations: Expectations
) -> None:
    stranger.start()
    stranger.send_method(0, commands.Connection.TuneOk(2047, 131072, 0))
    text = "CHANNEL_ERROR - unexpected method in connection state starting"
    ours = connection_closed(504, text, 10, 31)
    stranger.expect_refusal(expectations.of("handshake-error", ours))


def test_open_before_tune_ok_is_504(
    stranger: RawClient, expectations: Expectations
) -> None:
    stranger.login()
    stranger.send_method(0, commands.Connection.Open("/"))
    text = "CHANNEL_ERROR - unexpected method in connection state tuning"
    ours = connection_closed(504, text, 10, 40)
    stranger.expect_refusal(expectations.of("handshake-error", ours))


def test_a_channel_frame_before_open_is_505(stranger: RawClient) -> None:
    stranger.login()
    stranger.send_method(0, commands.Connection.TuneOk(2047, 131072, 0))
    stranger.send_method(1, commands.Channel.Open())
    stranger.expect_refusal(connection_closed(505, "UNEXPECTED_FRAME - type 1, ..."))


def test_methods_of_the_handshake_may_be_pipelined(broker: Endpoint) -> None:
    with RawClient(broker) as client:
        client.send_bytes(b"AMQP\x00\x00\x09\x01")
        response = plain(broker.user, broker.password)
        client.send_frame(METHOD, 0, encode_start_ok(b"PLAIN", response))
        client.send_method(0, commands.Connection.TuneOk(2047, 131072, 0))
        client.send_method(0, commands.Connection.Open(broker.vhost))
        client.expect_method(0, commands.Connection.Start)
        client.expect_method(0, commands.Connection.Tune)
        client.expect_method(0, commands.Connection.OpenOk)


@pytest.mark.parametrize(
    ("method", "method_id"),
    [
        (commands.Connection.TuneOk(2047, 131072, 0), 31),
        (commands.Connection.Open("/"), 40),
        (commands.Connection.CloseOk(), 51),
    ],
    ids=["tune-ok", "open", "close-ok"],
)
def test_a_method_of_the_handshake_is_504_once_the_connection_is_open(
    client: RawClient, method: base.Frame, method_id: int
) -> None:
    client.send_method(0, method)
    text = "CHANNEL_ERROR - unexpected method in connection state running"
    client.expect_refusal(connection_closed(504, text, 10, method_id))


def test_start_ok_is_504_once_the_connection_is_open(client: RawClient) -> None:
    client.send_frame(METHOD, 0, encode_start_ok(b"PLAIN", plain("guest", "guest")))
    text = "CHANNEL_ERROR - unexpected method in connection state running"
    client.expect_refusal(connection_closed(504, text, 10, 11))
