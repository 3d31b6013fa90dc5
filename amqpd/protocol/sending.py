"""Methods that are written by hand, because they are written per message.

    deliver   what is the same for all messages of a consumer is made once
              (`DeliverHead`)
    content   pasted as it came in; two octets a frame are patched when the channel
              differs, and a frame too large for this client is cut

Everything else that is sent goes through `amqpd.wire.methods`.
"""

from typing import Final, final

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64, u8

from amqpd.broker.messages.message import Message
from amqpd.protocol.output import Output
from amqpd.wire.frames import (
    BODY,
    FRAME_END,
    HEAD_SIZE,
    METHOD,
    OVERHEAD,
    read_u32,
    write_head,
)

BASIC_RETURN: Final = 0x003C0032
BASIC_DELIVER: Final = 0x003C003C
BASIC_GET_OK: Final = 0x003C0047
BASIC_ACK: Final = 0x003C0050
BASIC_NACK: Final = 0x003C0078


@final
class DeliverHead:
    """The beginning of basic.deliver, up to the consumer tag, for one consumer."""

    __slots__ = ("_address_size", "_channel", "_octets", "_tag")

    def __init__(self, channel: i64, tag: bytes) -> None:
        self._channel: i64 = channel
        self._tag = tag
        self._octets = b""
        self._address_size: i64 = -1

    def for_address(self, address: bytes) -> bytes:
        """The octets before the delivery tag, for an address of that size."""
        size: i64 = len(address)
        if size != self._address_size:
            out = BytesWriter()
            # class and method, tag, delivery tag, redelivered, address less frame end
            payload_size: i64 = 4 + 1 + len(self._tag) + 8 + 1 + size - 1
            write_head(out, METHOD, self._channel, payload_size)
            write_i32_be(out, BASIC_DELIVER)
            out.append(len(self._tag))
            out.write(self._tag)
            self._octets = out.getvalue()
            self._address_size = size
        return self._octets


def write_content(output: Output, channel: i64, message: Message) -> None:
    """Write a message's header and body frames for a channel."""
    write_frames(output, channel, message.content, message.channel)
    if message.body is not None:
        output.send_body(channel, message.body)


def write_frames(
    output: Output, channel: i64, content: bytes, from_channel: i64
) -> None:
    """Write the frames of `content`, which came on `from_channel`, for a channel."""
    out = output.writer()
    if len(content) > output.frame_max:
        _write_cut(out, output.frame_max, channel, content)
    else:
        at: i64 = len(out)
        out.write(content)
        if from_channel != channel:
            _patch_channel(out, at, channel, content)


def _patch_channel(out: BytesWriter, at: i64, channel: i64, content: bytes) -> None:
    """Put `channel` into the frames of `content`, which begins at `at`."""
    high = u8(channel >> 8)
    low = u8(channel & 0xFF)
    end: i64 = len(content)
    offset: i64 = 0
    while offset < end:
        out[at + offset + 1] = high
        out[at + offset + 2] = low
        offset += read_u32(content, offset + 3) + OVERHEAD


def _write_cut(out: BytesWriter, frame_max: i64, channel: i64, content: bytes) -> None:
    """Write the frames of `content`, the body in pieces that fit `frame_max`."""
    header_size = read_u32(content, 3)
    write_head(out, 2, channel, header_size)
    out.write(content[HEAD_SIZE : HEAD_SIZE + header_size])
    out.append(FRAME_END)
    offset: i64 = header_size + OVERHEAD + HEAD_SIZE
    end: i64 = len(content) - 1
    while offset < end:
        size = end - offset
        if size > frame_max - OVERHEAD:
            size = frame_max - OVERHEAD
        write_head(out, BODY, channel, size)
        out.write(content[offset : offset + size])
        out.append(FRAME_END)
        offset += size


def write_return(
    output: Output, channel: i64, message: Message, code: i64, text: bytes
) -> None:
    """Write basic.return with the message."""
    out = output.writer()
    size: i64 = 4 + 2 + 1 + len(text) + len(message.address) - 1
    write_head(out, METHOD, channel, size)
    write_i32_be(out, BASIC_RETURN)
    write_i16_be(out, i16(code))
    out.append(len(text))
    out.write(text)
    out.write(message.address)
    write_content(output, channel, message)


def write_get_ok(
    output: Output,
    channel: i64,
    message: Message,
    delivery_tag: i64,
    redelivered: bool,
    message_count: i64,
) -> None:
    """Write basic.get-ok with the message."""
    out = output.writer()
    address = message.address
    write_head(out, METHOD, channel, 4 + 8 + 1 + len(address) - 1 + 4)
    write_i32_be(out, BASIC_GET_OK)
    write_i64_be(out, delivery_tag)
    out.append(1 if redelivered else 0)
    out.write(address[:-1])
    write_i32_be(out, i32(min(message_count, 0x7FFFFFFF)))
    out.append(FRAME_END)
    write_content(output, channel, message)


def write_ack(
    output: Output, channel: i64, number: i64, multiple: bool, positive: bool
) -> None:
    """Write the basic.ack or basic.nack that answers a publisher."""
    out = output.writer()
    write_head(out, METHOD, channel, 13)
    write_i32_be(out, BASIC_ACK if positive else BASIC_NACK)
    write_i64_be(out, number)
    # nack has a second bit, requeue, that means nothing to publishers
    out.append(1 if multiple else 0)
    out.append(FRAME_END)
