"""Recent history exchange: a fanout that tells newcomers what was said last.

Every binding matches every message, and the last messages stay here (20, or
`x-recent-history-length` of them). Whoever makes a binding asks for them and sends them
where it leads; this table only keeps them, oldest first. A message whose header
`x-recent-history-no-store` is true passes by. As in RabbitMQ the history is in memory
only, durable exchange or not: after a restart it begins anew. Nor does it leave memory
for the disk when memory runs short, so a long history of large messages is expensive.
"""

from collections import deque
from typing import Final, final

from routing.binding import Binding, BindingTable, Target
from routing.errors import ArgumentsInvalid, as_erlang
from routing.routable import Routable

_LENGTH_ARGUMENT: Final = "x-recent-history-length"
_NO_STORE_HEADER: Final = "x-recent-history-no-store"
_LENGTH_DEFAULT: Final = 20


@final
class RecentHistoryTable(BindingTable):
    """All bindings, and the last messages."""

    def __init__(self, arguments: dict[str, object]) -> None:
        super().__init__(arguments)
        # No message may take a remembered way past the history.
        self.asks_message = True
        self._length = _length(arguments)
        self._history: deque[Routable] = deque()
        self._targets: dict[Binding, Target] = {}

    def add(self, binding: Binding, target: Target) -> None:
        self._targets[binding] = target

    def remove(self, binding: Binding) -> None:
        del self._targets[binding]

    def match(self, routable: Routable, found: list[Target]) -> None:
        if routable.is_message:
            self._keep(routable)
        found.extend(self._targets.values())

    def history(self) -> list[Routable]:
        """Return the last messages, oldest first."""
        return list(self._history)

    def _keep(self, message: Routable) -> None:
        if message.headers().get(_NO_STORE_HEADER) is True:
            return
        self._history.append(message)
        if len(self._history) > self._length:
            self._history.popleft()


def _length(arguments: dict[str, object]) -> int:
    value = arguments.get(_LENGTH_ARGUMENT, _LENGTH_DEFAULT)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise ArgumentsInvalid(
        f"Invalid argument {as_erlang(value)}, '{_LENGTH_ARGUMENT}' must be a "
        "positive integer"
    )
