"""A message on its way through the exchanges: what they may ask of it.

Nothing is decoded before an exchange asks, and then once. A recent history keeps these
objects, and whoever binds to it gets their messages.
"""

from typing import final

from mypy_extensions import i64

from amqpd.broker.messages.delay import delay_of
from amqpd.broker.messages.message import Message
from amqpd.wire.frames import HEAD_SIZE
from amqpd.wire.properties import HAS_DELAY, HAS_HEADERS, headers, named_text
from routing.routable import Routable


@final
class RoutedMessage(Routable):
    """A message and the routing keys that it goes by."""

    def __init__(self, message: Message, keys: list[bytes]) -> None:
        super().__init__(keys)
        self.is_message = True
        self.message = message
        self._headers: dict[str, object] | None = None

    def headers(self) -> dict[str, object]:
        """The header table, decoded when it is asked for first."""
        if self._headers is None:
            if self.message.facts & HAS_HEADERS:
                self._headers = headers(self.message.content, HEAD_SIZE)
            else:
                self._headers = {}
        return self._headers

    def now_ms(self) -> i64:
        """When it was published."""
        return self.message.enqueued_ms

    def delay_ms(self) -> i64:
        """How long it is to wait before it is routed; 0 or less: not at all."""
        message = self.message
        return delay_of(message.content) if message.facts & HAS_DELAY else 0

    def property_text(self, name: str) -> bytes | None:
        """A property as text, None without it."""
        return named_text(self.message.content, HEAD_SIZE, name)
