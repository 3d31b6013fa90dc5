"""Whether a broker answers: the first step of a real AMQP handshake.

An open port proves nothing about the process behind it. So the protocol header is sent
and the whole connection.start is read; nobody logs in, so no password is needed and
nothing is changed. It knows the eight bytes of the header and the shape of a frame.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

_PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
_FRAME_HEADER: Final = struct.Struct(">BHI")
#: Frame type 1 on channel 0, and class 10 method 10: connection.start.
_METHOD_FRAME: Final = (1, 0)
_CONNECTION_START: Final = b"\x00\x0a\x00\x0a"
_SIZE_MAX: Final = 131_072


class NoAnswer(Exception):
    """Nobody speaks AMQP 0-9-1 there; the text says what happened instead."""


def ping(host: str, port: int, timeout_s: float = 5.0, is_tls: bool = False) -> None:
    """Return if a broker introduces itself, with TLS if asked to.

    Its certificate is not looked at: nothing is told or believed.

    Raises:
        NoAnswer: it does not.
    """
    try:
        with _connect(host, port, timeout_s, is_tls) as connection:
            connection.sendall(_PROTOCOL_HEADER)
            header = _read(connection, _FRAME_HEADER.size)
            kind, channel, size = _FRAME_HEADER.unpack(header)
            if (kind, channel) != _METHOD_FRAME or size > _SIZE_MAX:
                raise NoAnswer(f"{host}:{port} does not speak AMQP 0-9-1: {header!r}")
            payload = _read(connection, size + 1)
    except OSError as error:
        raise NoAnswer(f"{host}:{port}: {error}") from error
    if not payload.startswith(_CONNECTION_START) or payload[-1:] != b"\xce":
        raise NoAnswer(f"{host}:{port} sent another frame than connection.start")


def _connect(host: str, port: int, timeout_s: float, is_tls: bool) -> socket.socket:
    connection = socket.create_connection((host, port), timeout_s)
    if not is_tls:
        return connection
    # Only here: it takes as long as everything else.
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        return context.wrap_socket(connection)
    except OSError:
        connection.close()
        raise


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError(f"closed after {len(data)} of {size} bytes")
        data += part
    return data
