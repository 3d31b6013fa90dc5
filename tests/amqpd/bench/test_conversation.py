"""A conversation: methods however the stream is cut, and nothing that is not AMQP."""

from __future__ import annotations

import pytest
from pamqp import commands

from amqpd.bench.conversation import Conversation
from amqpd.wire.errors import FrameMalformed
from amqpd.wire.frames import HEARTBEAT_FRAME
from amqpd.wire.methods import encode_method

CLOSED = encode_method(1, commands.Channel.CloseOk())
BLOCKED = encode_method(0, commands.Connection.Blocked("low on memory"))
STREAM = CLOSED + HEARTBEAT_FRAME + BLOCKED


def names(conversation: Conversation) -> list[str]:
    return [method.name for method in conversation.take_methods()]


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_methods_survive_any_cut_of_the_stream(cut: int) -> None:
    conversation = Conversation(4096)
    for part in (STREAM[:cut], STREAM[cut:]):
        conversation.receive_data(part, 0)
    assert names(conversation) == ["Channel.CloseOk", "Connection.Blocked"]


def test_methods_survive_when_octets_come_one_by_one() -> None:
    conversation = Conversation(4096)
    for at in range(len(STREAM)):
        conversation.receive_data(STREAM[at : at + 1], 0)
    assert names(conversation) == ["Channel.CloseOk", "Connection.Blocked"]


@pytest.mark.parametrize(
    "greeting", [b"HTTP/1.1 400 Bad Request\r\n", b"AMQP\0\0\x09\1"]
)
def test_what_is_no_frame_is_refused(greeting: bytes) -> None:
    with pytest.raises(FrameMalformed):
        Conversation(131_072).receive_data(greeting, 0)


def test_a_frame_without_its_end_is_refused() -> None:
    with pytest.raises(FrameMalformed):
        Conversation(4096).receive_data(CLOSED[:-1] + b"\0", 0)


def test_what_was_taken_is_not_sent_again() -> None:
    conversation = Conversation(4096)
    conversation.say(1, commands.Channel.CloseOk())
    assert conversation.take_output() == CLOSED
    assert conversation.take_output() == b""
