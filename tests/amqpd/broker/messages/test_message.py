"""A message knows its size, and the channel that its frames name."""

from amqpd.broker.messages.message import HOLD_COST, NOT_STORED, REFERENCE_COST, Message
from amqpd.wire.properties import PERSISTENT
from tests.support.content import content_of

ADDRESS = b"\x00\x01q\xce"


def test_a_small_message_weighs_as_much_as_its_frames() -> None:
    content = content_of(b"hello", channel=1)
    message = Message(ADDRESS, content, None, 0, 7)
    assert message.size == len(content)
    assert message.body_size() == 5


def test_a_large_message_weighs_as_much_as_its_header_frame_and_its_body() -> None:
    header, body = content_of(b"", size=100_000), bytes(100_000)
    message = Message(ADDRESS, header, body, 0, 7)
    assert message.size == len(header) + 100_000
    assert message.body_size() == 100_000


def test_a_message_knows_the_channel_that_its_frames_name() -> None:
    message = Message(ADDRESS, content_of(b"x", channel=0xFEDC), None, 0, 7)
    assert message.channel == 0xFEDC


def test_a_new_message_is_not_in_the_log() -> None:
    message = Message(ADDRESS, content_of(b"x"), None, PERSISTENT, 7)
    assert message.number == NOT_STORED
    assert message.expires_ms == 0
    assert message.facts == PERSISTENT
    assert message.enqueued_ms == 7


def test_each_of_several_queues_is_charged_its_part() -> None:
    message = Message(ADDRESS, content_of(bytes(1000)), None, 0, 7)
    assert message.cost == message.size + REFERENCE_COST
    message.share_among(4)
    shared = message.size + REFERENCE_COST - HOLD_COST
    assert message.cost == shared // 4 + HOLD_COST
    message.share_among(1)
    assert message.cost == message.size + REFERENCE_COST
