"""CC and BCC: routing keys that the sender adds in the headers of a message.

The message is routed as if it had been published with each of these keys as well, and
every queue still gets it once. Consumers see whom CC named; BCC is taken out before
anybody keeps the message. Both must be arrays; what is no string in them is passed over
(RabbitMQ's sender-selected distribution).
"""

from typing import Final

from amqpd.broker.errors import PreconditionFailed
from amqpd.broker.messages.message import Message
from amqpd.wire.frames import HEAD_SIZE
from amqpd.wire.properties import HAS_BCC, HeaderTypeUnacceptable, header_strings
from amqpd.wire.rewriting import without_header

CC: Final = b"CC"
BCC: Final = b"BCC"


def selected_keys(message: Message) -> list[bytes]:
    """Return the routing keys in CC and BCC.

    Raises:
        PreconditionFailed: one of the two is no array.
    """
    content = message.content
    try:
        keys = header_strings(content, HEAD_SIZE, CC)
        keys += header_strings(content, HEAD_SIZE, BCC)
    except HeaderTypeUnacceptable as error:
        raise PreconditionFailed(f"invalid message: {error}") from None
    return keys


def without_blind_copies(message: Message) -> Message:
    """Return the message as everybody may see it: without BCC."""
    if not message.facts & HAS_BCC:
        return message
    shown = Message(
        message.address,
        without_header(message.content, BCC),
        message.body,
        message.facts & ~HAS_BCC,
        message.enqueued_ms,
    )
    shown.expires_ms = message.expires_ms
    return shown
