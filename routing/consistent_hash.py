"""Consistent hash exchange: one destination a message, the same for the same key.

The key is the routing key, or what `hash-header` or `hash-property` names. The binding
key is a weight: a destination of weight 2 gets twice as many keys as one of weight 1.

Every destination draws a number for the key and the best one takes the message:

    score = weight / -ln(draw)         draw = hash(key, destination) in 0 .. 1

That is weighted rendezvous hashing (Thaler and Ravishankar). RabbitMQ puts `weight`
buckets for each destination in a row and hashes into the row; who gets how much is the
same. Here nothing depends on the order of bindings, so a restart changes nothing; a new
destination takes keys from the others and moves none between them, one that goes leaves
its keys to the others, wherever it stood; and a weight of a million costs what 1 does.
The price is a look at each destination, 80 ns compiled, for a key that is not in the
route cache.

As in RabbitMQ a destination counts once: a second binding to it waits until the first
is gone. Messages without the header or property have one key all together.
"""

from hashlib import blake2b
from math import log
from typing import Final, final

from mypy_extensions import i64

from routing.binding import Binding, BindingTable, Target
from routing.errors import ArgumentsInvalid, BindingInvalid, as_erlang
from routing.hashing import hash_octets, mix
from routing.routable import Routable

_HEADER_ARGUMENT: Final = "hash-header"
_PROPERTY_ARGUMENT: Final = "hash-property"
_PROPERTIES: Final = ("correlation_id", "message_id", "timestamp")

_NO_VALUE: Final = b""
_SPAN: Final = 4294967296.0  # one more than the largest hash


@final
class _Place:
    """A destination: its bindings, and what it draws with."""

    __slots__ = ("high", "low", "name", "target", "weight", "weights")

    def __init__(self, binding: Binding, target: Target) -> None:
        kind = b"exchange " if binding.to_exchange else b"queue "
        self.name = kind + binding.destination.encode("utf-8", "surrogateescape")
        self.target = target
        # Two seeds: with 32 bits alone, two of some ten thousand would draw alike.
        digest = blake2b(self.name, digest_size=8).digest()
        self.low: i64 = int.from_bytes(digest[:4], "big")
        self.high: i64 = int.from_bytes(digest[4:], "big")
        self.weights: dict[Binding, float] = {}
        self.weight = 0.0

    def score(self, hashed: i64) -> float:
        """Return how much it wants a key with this hash."""
        drawn = mix(mix(hashed ^ self.low) ^ self.high)
        return self.weight / -log((float(drawn) + 0.5) / _SPAN)


@final
class ConsistentHashTable(BindingTable):
    """The destinations and their weights."""

    def __init__(self, arguments: dict[str, object]) -> None:
        super().__init__(arguments)
        self._header = _text(arguments, _HEADER_ARGUMENT)
        self._property = _text(arguments, _PROPERTY_ARGUMENT)
        if self._header is not None and self._property is not None:
            raise ArgumentsInvalid(
                "hash-header and hash-property are mutually exclusive"
            )
        if self._property is not None and self._property not in _PROPERTIES:
            raise ArgumentsInvalid(f"Unsupported property: {self._property}")
        self.asks_message = self._header is not None or self._property is not None
        self._places: dict[Target, _Place] = {}
        self._place_of: dict[Binding, _Place] = {}

    def add(self, binding: Binding, target: Target) -> None:
        weight = _weight(binding.key)
        place = self._places.get(target)
        if place is None:
            place = self._places[target] = _Place(binding, target)
            place.weight = weight
        place.weights[binding] = weight
        self._place_of[binding] = place

    def remove(self, binding: Binding) -> None:
        place = self._place_of.pop(binding)
        del place.weights[binding]
        if not place.weights:
            del self._places[place.target]
            return
        place.weight = next(iter(place.weights.values()))

    def match(self, routable: Routable, found: list[Target]) -> None:
        hashed = hash_octets(self._key(routable))
        best: _Place | None = None
        best_score = 0.0
        for place in self._places.values():
            score = place.score(hashed)
            # A tie must not depend on the order either.
            if (
                best is None
                or score > best_score
                or (score == best_score and place.name < best.name)
            ):
                best = place
                best_score = score
        if best is not None:
            found.append(best.target)

    def _key(self, routable: Routable) -> bytes:
        """Return what decides where it goes."""
        if self._header is not None:
            value = routable.headers().get(self._header)
            if value is None:
                return _NO_VALUE
            if isinstance(value, str):
                return value.encode("utf-8", "surrogateescape")
            # Numbers, tables and the rest: told apart by their type, as in RabbitMQ.
            return repr(value).encode("utf-8", "surrogateescape")
        if self._property is not None:
            text = routable.property_text(self._property)
            return _NO_VALUE if text is None else text
        # The first one only: CC and BCC do not make it two destinations.
        return routable.keys[0]


def _text(arguments: dict[str, object], name: str) -> str | None:
    value = arguments.get(name)
    if value is None or isinstance(value, str):
        return value
    raise ArgumentsInvalid(
        f"Invalid argument {as_erlang(value)}, '{name}' must be a string"
    )


def _weight(key: bytes) -> float:
    """Return a binding key's number; the texts are RabbitMQ's."""
    digits = key[1:] if key[:1] in (b"+", b"-") else key
    if not digits.isdigit():
        raise BindingInvalid(f"The binding key must be an integer: {as_erlang(key)}")
    weight = int(key)
    if weight < 1:
        raise BindingInvalid("The binding key must be greater than 0")
    return float(weight)
