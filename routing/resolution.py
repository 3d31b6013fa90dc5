"""What a walk through the exchanges found, and whether it would find it again.

Every exchange has a generation that rises with each change that could send a message
elsewhere. A resolution keeps the exchanges that its walk crossed and the sum of their
generations: they only rise, so the sum is the same exactly when each of them is.
Exchanges that were not crossed do not count, whatever happens to them.
"""

from typing import Generic, TypeVar, final

from mypy_extensions import i64

from routing.binding import Binding, BindingTable, Target

D = TypeVar("D")


@final
class Exchange(Target):
    """An exchange of a router."""

    def __init__(self, name: str, table: BindingTable, alternate: str | None) -> None:
        super().__init__()
        self.name = name
        self.table = table
        self.alternate = alternate
        #: Bindings with this exchange as their source, in the order they were made.
        self.bindings_from: dict[Binding, Target] = {}
        self.generation: i64 = 0


@final
class Destination(Target):
    """A destination of a router; `value` is what the caller calls by that name."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value


@final
class Resolution(Generic[D]):
    """Where a message goes, in the order of the first match.

    `asks_message` says that it depends on more than the routing keys, because of an
    exchange on the way: it holds for this message only. `asks_only_headers` says that
    it holds for every message with these keys and this header table.
    """

    __slots__ = (
        "_first",
        "_generations",
        "_others",
        "asks_message",
        "asks_only_headers",
        "destinations",
    )

    def __init__(self, destinations: list[D], crossed: list[Exchange]) -> None:
        self.destinations = destinations
        self.asks_message = False
        self.asks_only_headers = False
        asks_more = False
        for exchange in crossed:
            if exchange.table.asks_message:
                self.asks_message = True
                asks_more = asks_more or not exchange.table.asks_only_headers
        self.asks_only_headers = self.asks_message and not asks_more
        self._first = crossed[0]
        self._others: list[Exchange] | None = None
        if len(crossed) > 1:
            self._others = crossed[1:]
        self._generations: i64 = self._sum()

    def is_current(self) -> bool:
        """Say whether the same walk would still lead to the same destinations."""
        return self._generations == self._sum()

    def _sum(self) -> i64:
        generations = self._first.generation
        if self._others is not None:
            for exchange in self._others:
                generations += exchange.generation
        return generations
