"""Content as it is on the wire: header frames, body frames, whole messages.

The octets that tests feed and expect, put together without the code that is tested.
"""

from __future__ import annotations

import struct
from typing import Final

METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3

DELIVERY_MODE: Final = 0x1000
PERSISTENT_PROPERTIES: Final = struct.pack(">HB", DELIVERY_MODE, 2)
NO_PROPERTIES: Final = b"\x00\x00"


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """One frame."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def header_frame(
    size: int, properties: bytes = NO_PROPERTIES, channel: int = 1
) -> bytes:
    """A content header; `properties` begins with the flags."""
    return frame(HEADER, channel, struct.pack(">HHQ", 60, 0, size) + properties)


def content_of(
    body: bytes,
    properties: bytes = NO_PROPERTIES,
    channel: int = 1,
    size: int | None = None,
    frame_size: int = 131064,
) -> bytes:
    """A header frame and as many body frames as the body needs.

    `size` is what the header announces, if that is not the size of the body.
    """
    announced = len(body) if size is None else size
    frames = [header_frame(announced, properties, channel)]
    for at in range(0, len(body), frame_size):
        frames.append(frame(BODY, channel, body[at : at + frame_size]))
    return b"".join(frames)


def short_string(text: str | bytes) -> bytes:
    """A short string: an octet that counts, then the octets."""
    octets = text.encode() if isinstance(text, str) else text
    return bytes([len(octets)]) + octets


def with_headers(entries: bytes) -> bytes:
    """Properties that are a header table of these entries."""
    return b"\x20\x00" + len(entries).to_bytes(4, "big") + entries


def string_array(name: str, *strings: str | bytes) -> bytes:
    """An entry of a table: an array of long strings."""
    items = b""
    for text in strings:
        octets = text.encode() if isinstance(text, str) else text
        items += b"S" + len(octets).to_bytes(4, "big") + octets
    return short_string(name) + b"A" + len(items).to_bytes(4, "big") + items


def publish_frame(
    exchange: str,
    routing_key: str,
    channel: int = 1,
    mandatory: bool = False,
    immediate: bool = False,
) -> bytes:
    """The method frame of basic.publish."""
    payload = struct.pack(">HHH", 60, 40, 0)
    payload += short_string(exchange) + short_string(routing_key)
    payload += bytes([mandatory | immediate << 1])
    return frame(METHOD, channel, payload)


def publish(
    routing_key: str,
    body: bytes = b"",
    exchange: str = "",
    properties: bytes = NO_PROPERTIES,
    channel: int = 1,
    mandatory: bool = False,
    frame_size: int = 131064,
) -> bytes:
    """A whole basic.publish with its content."""
    return publish_frame(exchange, routing_key, channel, mandatory) + content_of(
        body, properties, channel, frame_size=frame_size
    )
