"""Default exchange: every destination under its own name, without a binding.

Nobody publishes through this table, because the default exchange is one dictionary
lookup of the broker's. It is for messages that come to it as an alternate exchange.
"""

from typing import final

from routing.binding import Binding, BindingTable, Target
from routing.routable import Routable


@final
class DefaultTable(BindingTable):
    """The router's own destinations, by name; nothing can be bound."""

    def __init__(self, destinations: dict[str, Target]) -> None:
        super().__init__({})
        self._destinations = destinations

    def add(self, binding: Binding, target: Target) -> None:
        raise AssertionError("the default exchange has no bindings")

    def remove(self, binding: Binding) -> None:
        raise AssertionError("the default exchange has no bindings")

    def match(self, routable: Routable, found: list[Target]) -> None:
        for key in routable.keys:
            target = self._destinations.get(key.decode("utf-8", "surrogateescape"))
            if target is not None:
                found.append(target)
