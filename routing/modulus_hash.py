"""Modulus hash exchange: the routing keys, hashed, say which binding in the row.

As simple as RabbitMQ's `x-modulus-hash`: adding a binding moves nearly every key. The
row is sorted, so it is the same after a restart, whatever order bindings come in. All
keys of a message take part, those of CC and BCC too, and still it takes one binding.
"""

from bisect import bisect_left
from typing import final

from mypy_extensions import i64

from routing.binding import Binding, BindingTable, Target
from routing.hashing import hash_octets, mix
from routing.routable import Routable

_SortKey = tuple[bytes, bool, str, bytes]


@final
class ModulusHashTable(BindingTable):
    """All bindings in a sorted row."""

    def __init__(self, arguments: dict[str, object]) -> None:
        super().__init__(arguments)
        self._order: list[_SortKey] = []
        self._targets: list[Target] = []

    def add(self, binding: Binding, target: Target) -> None:
        key = _sort_key(binding)
        place = bisect_left(self._order, key)
        self._order.insert(place, key)
        self._targets.insert(place, target)

    def remove(self, binding: Binding) -> None:
        place = bisect_left(self._order, _sort_key(binding))
        del self._order[place]
        del self._targets[place]

    def match(self, routable: Routable, found: list[Target]) -> None:
        count = i64(len(self._targets))
        if not count:
            return
        hashed: i64 = 0
        for key in routable.keys:
            hashed = mix(hashed ^ hash_octets(key))
        found.append(self._targets[hashed % count])


def _sort_key(binding: Binding) -> _SortKey:
    return (
        binding.key,
        binding.to_exchange,
        binding.destination,
        binding.raw_arguments,
    )
