"""Messages that the broker itself publishes: events, and copies for the firehose.

    headers, sometimes the body of another message  ->  content  ->  into queues

They take no part in confirms or returns: nobody waits for them. Without a queue behind
the exchange nothing is made.
"""

from typing import Final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i64

from amqpd.broker.messages.message import Message
from amqpd.broker.messages.routed_message import RoutedMessage
from amqpd.broker.vhosts.deposit import deposit
from amqpd.broker.vhosts.topology import Topology
from amqpd.wire.frames import (
    FRAME_END,
    HEAD_SIZE,
    HEADER,
    OVERHEAD,
    read_u16,
    read_u32,
    write_head,
)
from amqpd.wire.properties import walk_properties
from amqpd.wire.tables import Table, encode_table

# Flags, delivery mode 2 in the case of events, a timestamp behind it.
_HEADERS: Final = 0x2000
_HEADERS_MODE_TIMESTAMP: Final = 0x3040
_PERSISTENT: Final = 2
_BASIC: Final = 60 << 16
NO_CHANNEL: Final = 0


def publish_event(
    topology: Topology, exchange: str, key: str, headers: Table, now_ms: i64
) -> None:
    """Publish a message without a body: persistent, with the time in seconds."""
    properties = BytesWriter()
    properties.append(_HEADERS_MODE_TIMESTAMP >> 8)
    properties.append(_HEADERS_MODE_TIMESTAMP & 0xFF)
    properties.write(_sized_table(headers))
    properties.append(_PERSISTENT)
    write_i64_be(properties, now_ms // 1000)
    content = _header_frame(NO_CHANNEL, 0, properties.getvalue())
    _publish(topology, exchange, key, content, None, now_ms)


def publish_copy(
    topology: Topology,
    exchange: str,
    key: str,
    headers: Table,
    original: Message,
    now_ms: i64,
) -> None:
    """Publish a message with the body of another and headers of its own."""
    content = original.content
    properties = BytesWriter()
    properties.append(_HEADERS >> 8)
    properties.append(_HEADERS & 0xFF)
    properties.write(_sized_table(headers))
    # The frames are kept as they came: their channel is patched on the way out.
    channel = read_u16(content, 1)
    copied = _header_frame(channel, original.body_size(), properties.getvalue())
    header_end = read_u32(content, 3) + OVERHEAD
    copied += content[header_end:]
    _publish(topology, exchange, key, copied, original.body, now_ms)


def _publish(
    topology: Topology,
    exchange: str,
    key: str,
    content: bytes,
    body: bytes | None,
    now_ms: i64,
) -> None:
    address = _short(exchange.encode()) + _short(key.encode()[:255]) + b"\xce"
    facts = walk_properties(content, HEAD_SIZE, read_u32(content, 3) + HEAD_SIZE)
    message = Message(address, content, body, facts, now_ms)
    routed = RoutedMessage(message, [key.encode()])
    queues = topology.router.resolve(exchange, routed).destinations
    if queues:
        deposit(message, queues, topology.surroundings.keepers)


def _header_frame(channel: i64, body_size: i64, properties: bytes) -> bytes:
    out = BytesWriter()
    write_head(out, HEADER, channel, 12 + len(properties))
    write_i32_be(out, _BASIC)
    write_i64_be(out, body_size)
    out.write(properties)
    out.append(FRAME_END)
    return out.getvalue()


def _sized_table(table: Table) -> bytes:
    encoded = encode_table(table)
    return len(encoded).to_bytes(4, "big") + encoded


def _short(octets: bytes) -> bytes:
    return bytes((len(octets),)) + octets
