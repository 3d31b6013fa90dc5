"""Direct exchange: the binding key is the routing key."""

from typing import final

from routing.binding import Binding, BindingTable, Target
from routing.routable import Routable


@final
class DirectTable(BindingTable):
    """The bindings of each key."""

    def __init__(self, arguments: dict[str, object]) -> None:
        super().__init__(arguments)
        self._by_key: dict[bytes, dict[Binding, Target]] = {}

    def add(self, binding: Binding, target: Target) -> None:
        self._by_key.setdefault(binding.key, {})[binding] = target

    def remove(self, binding: Binding) -> None:
        same_key = self._by_key[binding.key]
        del same_key[binding]
        if not same_key:
            del self._by_key[binding.key]

    def match(self, routable: Routable, found: list[Target]) -> None:
        for key in routable.keys:
            same_key = self._by_key.get(key)
            if same_key is not None:
                found.extend(same_key.values())
