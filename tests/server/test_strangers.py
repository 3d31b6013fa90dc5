"""Who says nothing, takes too long, or comes from elsewhere; limits are short."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from pamqp import commands

from amqpd.testing import AmqpdServer
from tests.support.raw_client import (
    ALL_CAPABILITIES,
    METHOD,
    Endpoint,
    RawClient,
    connection_closed,
    encode_start_ok,
    plain,
)
from tests.support.waiting import eventually, has_waited

HANDSHAKE_TIMEOUT_MS = 300


@pytest.fixture(scope="module")
def server() -> Iterator[AmqpdServer]:
    config = f"handshake_timeout_ms = {HANDSHAKE_TIMEOUT_MS}\n"
    elsewhere = [("--host", address) for address in addresses_of_this_machine()]
    with AmqpdServer(args=sum(elsewhere, ()), config=config) as running:
        yield running


@pytest.fixture
def stranger(server: AmqpdServer) -> Iterator[RawClient]:
    with RawClient(Endpoint.from_url(server.url)) as client:
        yield client


def addresses_of_this_machine() -> list[str]:
    """Return what a peer that is not this machine would call it; may be empty."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: this only asks which way it would go.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return []
        return [str(probe.getsockname()[0])]


def test_a_handshake_that_takes_too_long_is_ended(server: AmqpdServer) -> None:
    began = time.monotonic()
    with RawClient(Endpoint.from_url(server.url)) as slow:
        slow.start()
        slow.expect_end()
    assert has_waited(began, HANDSHAKE_TIMEOUT_MS)


def test_a_connection_that_is_open_has_all_the_time(
    server: AmqpdServer, stranger: RawClient
) -> None:
    stranger.open()
    with RawClient(Endpoint.from_url(server.url)) as slow:
        slow.expect_end()
    stranger.open_channel()


def test_a_health_check_leaves_no_line_in_the_log(server: AmqpdServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as checking:
        port = checking.getsockname()[1]
    with RawClient(Endpoint.from_url(server.url)) as client:
        client.open().close()
    eventually(lambda: "closed" in server.log)
    assert f":{port} " not in server.log


@pytest.mark.parametrize(
    "peer", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01"]
)
def test_another_protocol_is_answered_with_ours(
    stranger: RawClient, peer: bytes
) -> None:
    stranger.send_bytes(peer + b"\x00" * 8)
    assert stranger.read_exactly(8) == b"AMQP\x00\x00\x09\x01"
    stranger.expect_end()


def test_guest_comes_over_the_loopback_only(server: AmqpdServer) -> None:
    for address in addresses_of_this_machine():
        endpoint = Endpoint(address, server.port, "guest", "guest", "/")
        with RawClient(endpoint) as client:
            client.start()
            response = plain("guest", "guest")
            start_ok = encode_start_ok(b"PLAIN", response, ALL_CAPABILITIES)
            client.send_frame(METHOD, 0, start_ok)
            text = (
                "ACCESS_REFUSED - Login was refused using authentication mechanism "
                "PLAIN. For details see the broker logfile."
            )
            client.expect_refusal(connection_closed(403, text))
    with RawClient(Endpoint.from_url(server.url)) as client:
        client.open().call(
            0, commands.Connection.Close(200, "", 0, 0), commands.Connection.CloseOk
        )
