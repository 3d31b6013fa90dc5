"""A message: the frames that pamqp reads are those that were meant."""

from __future__ import annotations

import pytest
from librt.strings import BytesWriter
from pamqp import body, commands, frame, header

from amqpd.bench.message import STAMP_SIZE, Message, body_after_stamp

STAMP = (0x0102030405060708).to_bytes(8, "big") + (0x1112131415161718).to_bytes(
    8, "big"
)


def frames(data: bytes) -> list[object]:
    found: list[object] = []
    while data:
        size, channel, each = frame.unmarshal(data)
        assert channel == 1
        found.append(each)
        data = data[size:]
    return found


def written(message: Message) -> bytes:
    out = BytesWriter()
    message.write(out, 0x0102030405060708, 0x1112131415161718)
    return out.getvalue()


@pytest.mark.parametrize("size", [16, 17, 1000, 4088, 4089, 8176, 20_000])
def test_a_body_is_as_large_as_asked_for_and_begins_with_its_stamp(size: int) -> None:
    message = Message("x", "q", {}, False, size, 4096)
    data = written(message)
    publish, content, *bodies = frames(data)
    assert message.size == len(data)
    assert isinstance(publish, commands.Basic.Publish)
    assert (publish.exchange, publish.routing_key) == ("x", "q")
    assert isinstance(content, header.ContentHeader)
    assert content.body_size == size
    parts = [part.value for part in bodies if isinstance(part, body.ContentBody)]
    assert max(len(part) for part in parts) <= 4088
    assert b"".join(parts) == STAMP + body_after_stamp(size)
    assert len(STAMP) == STAMP_SIZE


@pytest.mark.parametrize(("persistent", "mode"), [(False, 1), (True, 2)])
def test_the_delivery_mode_says_whether_it_is_persistent(
    persistent: bool, mode: int
) -> None:
    content = frames(written(Message("", "q", {}, persistent, 16, 4096)))[1]
    assert isinstance(content, header.ContentHeader)
    assert content.properties.delivery_mode == mode
    assert content.properties.headers is None


def test_headers_are_those_that_were_given() -> None:
    content = frames(written(Message("", "q", {"queue": "a"}, True, 16, 4096)))[1]
    assert isinstance(content, header.ContentHeader)
    assert content.properties.headers == {"queue": "a"}
    assert content.properties.delivery_mode == 2
