"""The health check against peers that answer in every wrong way."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from amqpd.cli.ping import NoAnswer, ping

START = b"\x00\x0a\x00\x0a\x00\x09"


def frame(
    payload: bytes, kind: int = 1, channel: int = 0, end: bytes = b"\xce"
) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


@contextmanager
def peer_that_answers(answer: bytes) -> Iterator[tuple[str, int]]:
    """Serve one connection: read the protocol header, send `answer`, close."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                assert connection.recv(8) == b"AMQP\x00\x00\x09\x01"
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()
        thread.join()


def test_a_connection_start_is_an_answer() -> None:
    with peer_that_answers(frame(START)) as (host, port):
        ping(host, port)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        frame(START)[:5],
        frame(START)[:-1],
        b"AMQP\x00\x00\x09\x01",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        frame(START, kind=2),
        frame(START, channel=1),
        frame(START, end=b"\x00"),
        frame(b"\x00\x0a\x00\x32"),
    ],
    ids=lambda answer: repr(answer[:12]),
)
def test_anything_else_is_none(answer: bytes) -> None:
    with peer_that_answers(answer) as (host, port):
        with pytest.raises(NoAnswer, match=f"{host}:{port}"):
            ping(host, port)
