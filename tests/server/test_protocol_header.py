"""The first eight bytes: which ones start a connection, and what the others get."""

from __future__ import annotations

import pytest
from pamqp import commands

from tests.support.raw_client import PROTOCOL_HEADER, RawClient


@pytest.mark.parametrize(
    "header",
    [
        b"AMQP\x00\x00\x09\x02",
        b"AMQP\x00\x00\x08\x00",
        b"AMQP\x00\x00\x0a\x00",
        b"AMQP\x00\x01\x00\x00",
        b"AMQP\x03\x01\x00\x00",
        b"GET / HTTP/1.1\r\n",
        b"XXXXXXXX",
    ],
)
def test_an_unknown_header_is_answered_with_ours_and_the_end(
    stranger: RawClient, header: bytes
) -> None:
    stranger.send_bytes(header)
    assert stranger.read_exactly(8) == PROTOCOL_HEADER
    stranger.expect_end()


@pytest.mark.parametrize(
    "header", [PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09"], ids=["0-9-1", "0-9"]
)
def test_a_known_header_is_answered_with_connection_start(
    stranger: RawClient, header: bytes
) -> None:
    stranger.send_bytes(header)
    start = stranger.expect_method(0, commands.Connection.Start)
    assert (start.version_major, start.version_minor) == (0, 9)


def test_the_header_may_come_byte_by_byte(stranger: RawClient) -> None:
    for octet in PROTOCOL_HEADER:
        stranger.send_bytes(bytes([octet]))
    stranger.expect_method(0, commands.Connection.Start)


def test_start_offers_the_mechanisms_the_locale_and_the_capabilities(
    stranger: RawClient,
) -> None:
    start = stranger.start()
    assert {"PLAIN", "AMQPLAIN"} <= set(start.mechanisms.split())
    assert start.locales == "en_US"
    assert start.server_properties is not None
    assert start.server_properties["capabilities"] == dict.fromkeys(
        (
            "publisher_confirms",
            "exchange_exchange_bindings",
            "basic.nack",
            "consumer_cancel_notify",
            "connection.blocked",
            "consumer_priorities",
            "authentication_failure_close",
            "per_consumer_qos",
            "direct_reply_to",
        ),
        True,
    )


@pytest.mark.parametrize("key", ["product", "version", "platform", "information"])
def test_start_says_who_the_broker_is(stranger: RawClient, key: str) -> None:
    properties = stranger.start().server_properties
    assert properties is not None
    assert isinstance(properties[key], str)
