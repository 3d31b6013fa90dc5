"""The last steps of every publish, whoever publishes: checks, and into the queues.

What is checked here are properties that the broker acts on. A message is put into all
its queues or, when some have no room and refuse what is too much, into the others. One
that has come to a queue before is not put there, if the queue compares ids.
"""

from enum import Enum
from typing import Final

from mypy_extensions import i64

from amqpd.auth.users import User
from amqpd.broker.errors import PreconditionFailed
from amqpd.broker.messages.message import Message
from amqpd.broker.messages.routed_message import RoutedMessage
from amqpd.broker.queues.keeper import KeepersRound
from amqpd.broker.queues.queue import Queue
from amqpd.wire.frames import HEAD_SIZE
from amqpd.wire.properties import (
    HAS_EXPIRATION,
    HAS_UNKNOWN_MODE,
    HAS_USER_ID,
    delivery_mode,
    expiration,
    user_id,
)

# A deadline further away than this (284 years) is no deadline.
MILLISECONDS_MAX: Final = 1 << 53


def check_properties(message: Message, user: User, now_ms: i64) -> None:
    """Check user-id, expiration and delivery-mode; note when the message expires.

    Raises:
        PreconditionFailed: one of them is not valid.
    """
    content = message.content
    if message.facts & HAS_USER_ID:
        claimed = user_id(content, HEAD_SIZE)
        if claimed != user.name.encode() and "impersonator" not in user.tags:
            raise PreconditionFailed(
                f"user_id property set to '{claimed.decode(errors='replace')}' "
                f"but authenticated user was '{user.name}'"
            )
    if message.facts & HAS_EXPIRATION:
        message.expires_ms = now_ms + milliseconds(
            expiration(content, HEAD_SIZE).decode(errors="replace")
        )
    if message.facts & HAS_UNKNOWN_MODE:
        mode = delivery_mode(content, HEAD_SIZE)
        raise PreconditionFailed(f"invalid message: {{delivery_mode_unknown,{mode}}}")


def milliseconds(text: str) -> int:
    """The value of an `expiration` property.

    Raises:
        PreconditionFailed: it is not a number of milliseconds (RabbitMQ's texts).
    """
    digits = text[1:] if text[:1] in ("-", "+") else text
    count = 0
    while count < len(digits) and digits[count] in "0123456789":
        count += 1
    if count == 0:
        raise PreconditionFailed(f"invalid expiration '{text}': no_integer")
    if count < len(digits):
        rest = digits[count:]
        raise PreconditionFailed(
            f"invalid expiration '{text}': {{leftover_string,\"{rest}\"}}"
        )
    value = int(text)
    if value < 0:
        raise PreconditionFailed(
            f"invalid expiration '{text}': {{value_negative,{value}}}"
        )
    return min(value, MILLISECONDS_MAX)


class Outcome(Enum):
    """What became of a message."""

    TAKEN = "taken"
    # A queue had one with its id before, which may still wait for the disk.
    SEEN = "seen"
    REFUSED = "refused"


def deposit(message: Message, queues: list[Queue], keepers: KeepersRound) -> Outcome:
    """Put a message into those of its queues that do not refuse it.

    Returns whether all have taken it; that one refuses it weighs more than that another
    one has had it before.
    """
    seen = RoutedMessage(message, [])
    new_to = [
        one for one in queues if one.seen_ids is None or not one.seen_ids.has(seen)
    ]
    refusing: list[Queue] = []
    for queue in new_to:
        if queue.keeper is not None and queue.keeper.refuses(message):
            refusing.append(queue)
    taking = [one for one in new_to if one not in refusing]
    message.share_among(max(1, len(taking)))
    for queue in taking:
        queue.publish(message)
        if queue.seen_ids is not None:
            queue.seen_ids.add(seen)
    for queue in refusing:
        assert queue.keeper is not None
        queue.keeper.on_refused(message)
    keepers.run()
    if refusing:
        return Outcome.REFUSED
    return Outcome.TAKEN if len(new_to) == len(queues) else Outcome.SEEN
