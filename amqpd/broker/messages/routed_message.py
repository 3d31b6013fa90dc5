"""A message on its way through the exchanges: what they may ask of it.

Nothing is decoded before an exchange asks, and then once. A recent history keeps these
objects, and whoever binds to it gets their messages. `RoutedHeaders` stands for all
messages that have the same keys and the same header table.
"""

from typing import final

from mypy_extensions import i64

from amqpd.broker.messages.delay import delay_of
from amqpd.broker.messages.message import Message
from amqpd.wire.frames import HEAD_SIZE
from amqpd.wire.properties import (
    HAS_DELAY,
    HAS_HEADERS,
    headers,
    headers_place,
    named_text,
)
from amqpd.wire.tables import decode_among, decode_walked_table
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

    def headers_among(self, names: dict[bytes, str]) -> dict[str, object]:
        """The headers that have one of these names."""
        if self._headers is not None:
            return self._headers
        content = self.message.content
        start, end = headers_place(content, HEAD_SIZE)
        return decode_among(content, start, end, names)

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


@final
class RoutedHeaders(Routable):
    """Routing keys and the octets of a header table, which have been walked."""

    def __init__(self, keys: list[bytes], data: bytes, start: i64, end: i64) -> None:
        super().__init__(keys)
        self._data = data
        self._start: i64 = start
        self._end: i64 = end

    def headers(self) -> dict[str, object]:
        """The header table, decoded."""
        return decode_walked_table(self._data, self._start, self._end)

    def headers_among(self, names: dict[bytes, str]) -> dict[str, object]:
        """The headers that have one of these names."""
        return decode_among(self._data, self._start, self._end, names)
