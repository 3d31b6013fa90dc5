"""Bindings, where they lead, and what an exchange type has to do with them.

A new exchange type is one file with one subclass of `BindingTable` and one line in
`exchange_types`. It never sees queues or exchanges: a binding leads to a `Target`,
and matching appends targets to a list. The same target may be appended many times;
whoever asked passes over those that it has seen. What is routed is a `Routable`.
"""

from abc import ABC, abstractmethod
from typing import final

from mypy_extensions import i64

from routing.routable import Routable


@final
class Binding:
    """A rule that leads from an exchange to a queue or to another exchange.

    Two bindings are the same when source, destination, its kind, key and the raw
    arguments are. `raw_arguments` are the octets of the table `arguments`.
    """

    __slots__ = (
        "_hash",
        "arguments",
        "destination",
        "key",
        "raw_arguments",
        "source",
        "to_exchange",
    )

    def __init__(
        self,
        source: str,
        destination: str,
        to_exchange: bool,
        key: bytes,
        arguments: dict[str, object],
        raw_arguments: bytes,
    ) -> None:
        self.source = source
        self.destination = destination
        self.to_exchange = to_exchange
        self.key = key
        self.arguments = arguments
        self.raw_arguments = raw_arguments
        self._hash = hash((source, destination, to_exchange, key, raw_arguments))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Binding)
            and self._hash == other._hash
            and self.destination == other.destination
            and self.source == other.source
            and self.key == other.key
            and self.raw_arguments == other.raw_arguments
            and self.to_exchange == other.to_exchange
        )


class Target:
    """Where bindings lead. Compared by identity."""

    def __init__(self) -> None:
        #: The bindings that lead here; a dict for its order and its O(1) removal.
        self.bindings_to: dict[Binding, None] = {}
        #: The number of the walk that came here last.
        self.seen_in: i64 = 0


class BindingTable(ABC):
    """The bindings of one exchange, arranged the way its type looks them up."""

    #: Does a match depend on more than the routing keys?
    asks_message: bool
    #: If so: on nothing but the routing keys and the headers?
    asks_only_headers: bool

    def __init__(self, arguments: dict[str, object]) -> None:
        """Make an empty table for an exchange declared with these arguments.

        Raises:
            ArgumentsInvalid: the type cannot work with them.
        """
        self.asks_message = False
        self.asks_only_headers = False

    @abstractmethod
    def add(self, binding: Binding, target: Target) -> None:
        """Put in a binding that is not in the table.

        Raises:
            BindingInvalid: its arguments make no sense; the table is as before.
        """

    @abstractmethod
    def remove(self, binding: Binding) -> None:
        """Take out a binding that is in the table."""

    @abstractmethod
    def match(self, routable: Routable, found: list[Target]) -> None:
        """Append where it goes, in any order."""
