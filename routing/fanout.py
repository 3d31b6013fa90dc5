"""Fanout exchange: every binding matches every message."""

from typing import final

from routing.binding import Binding, BindingTable, Target
from routing.routable import Routable


@final
class FanoutTable(BindingTable):
    """All bindings, in the order they were made."""

    def __init__(self, arguments: dict[str, object]) -> None:
        super().__init__(arguments)
        self._targets: dict[Binding, Target] = {}

    def add(self, binding: Binding, target: Target) -> None:
        self._targets[binding] = target

    def remove(self, binding: Binding) -> None:
        del self._targets[binding]

    def match(self, routable: Routable, found: list[Target]) -> None:
        found.extend(self._targets.values())
