"""The exchanges and bindings of one virtual host, and the walk through them.

    resolve("in", Routable([b"a.b"]))

    in (topic) --a.*--> jobs
               --#----> archive (fanout) ---> cold      destinations: jobs, cold
                                         ---> in        (seen already: passed over)

The walk is breadth-first. An exchange without any match hands over to its alternate
exchange, if that exists. Nothing is visited twice: a walk has a number, and whatever
it comes to is marked with it, so that cycles end and a destination is found once
without a set being built. Exchanges may be bound to each other in any way.

The default exchange is not in here, except as an alternate. A destination is what the
caller says it is; names and keys have no meaning beyond being equal.
"""

from collections.abc import Iterator
from typing import Final, Generic, TypeVar, cast, final

from mypy_extensions import i64

from routing.binding import Binding, BindingTable, Target
from routing.deduplication import DeduplicatingTable, Ledger
from routing.default import DefaultTable
from routing.delayed import DelayedTable
from routing.dice import Dice
from routing.errors import UnknownDestination, UnknownSource
from routing.exchange_types import new_table
from routing.recent_history import RecentHistoryTable
from routing.resolution import Destination, Exchange, Resolution
from routing.routable import Routable

D = TypeVar("D")

DEFAULT_EXCHANGE: Final = ""


@final
class Router(Generic[D]):
    """Routes to destinations of type D; what is random in it follows from the seed."""

    def __init__(self, seed: i64 = 0, ledger: Ledger | None = None) -> None:
        """Make one without exchanges; `ledger` is for those that compare ids."""
        self._exchanges: dict[str, Exchange] = {}
        self._destinations: dict[str, Target] = {}
        self._default = Exchange(
            DEFAULT_EXCHANGE, DefaultTable(self._destinations), None
        )
        self._dice = Dice(seed)
        self._ledger = Ledger() if ledger is None else ledger
        # Who names an exchange (which may not exist) as alternate.
        self._by_alternate: dict[str, dict[str, Exchange]] = {}
        self._walk: i64 = 0

    # -- exchanges

    def add_exchange(
        self,
        name: str,
        type_name: str,
        alternate: str | None,
        arguments: dict[str, object],
    ) -> None:
        """Add an exchange that is not there, without bindings.

        Raises:
            UnknownExchangeType: no such type.
            ArgumentsInvalid: the type cannot work with the arguments.
        """
        assert name not in self._exchanges and name != DEFAULT_EXCHANGE
        table = new_table(type_name, arguments, self._dice, self._ledger)
        exchange = Exchange(name, table, None)
        self._exchanges[name] = exchange
        self.set_alternate(name, alternate)
        # Messages that found no alternate so far may go here now.
        for user in self._by_alternate.get(name, {}).values():
            user.generation += 1

    def has_exchange(self, name: str) -> bool:
        """Say whether there is an exchange of that name."""
        return name in self._exchanges

    def remove_exchange(self, name: str) -> list[Binding]:
        """Remove an exchange; return the bindings that went with it, both ways."""
        if name not in self._exchanges:
            return []
        self.set_alternate(name, None)
        exchange = self._exchanges[name]
        # Also those from itself, which are gone before the others are looked at.
        removed = self._remove_bindings_to(exchange)
        for binding, target in exchange.bindings_from.items():
            del target.bindings_to[binding]
            removed.append(binding)
        del self._exchanges[name]
        return removed

    def set_alternate(self, name: str, alternate: str | None) -> None:
        """Name the exchange that gets what this one has no match for.

        Raises:
            UnknownSource: there is no exchange `name`.
        """
        exchange = self._exchange(name)
        if exchange.alternate is not None:
            users = self._by_alternate[exchange.alternate]
            del users[name]
            if not users:
                del self._by_alternate[exchange.alternate]
        if alternate is not None:
            self._by_alternate.setdefault(alternate, {})[name] = exchange
        exchange.alternate = alternate
        exchange.generation += 1

    def set_waiting_room(self, name: str, destination: D) -> None:
        """Say where messages with a delay wait that come to a delayed exchange."""
        table = _within(self._exchange(name).table)
        assert isinstance(table, DelayedTable)
        table.waiting_room = Destination(destination)

    # -- destinations

    def add_destination(self, name: str, destination: D) -> None:
        """Let bindings lead to this name; a second time replaces what is behind it."""
        self._default.generation += 1
        target = self._destinations.get(name)
        if target is None:
            self._destinations[name] = Destination(destination)
            return
        cast(Destination, target).value = destination
        for binding in target.bindings_to:
            self._exchanges[binding.source].generation += 1

    def remove_destination(self, name: str) -> list[Binding]:
        """Remove a destination; return the bindings that went with it."""
        target = self._destinations.pop(name, None)
        if target is None:
            return []
        self._default.generation += 1
        return self._remove_bindings_to(target)

    # -- bindings

    def bind(self, binding: Binding) -> bool:
        """Add a binding; return False if it is there already.

        Raises:
            UnknownSource: its source is no exchange.
            UnknownDestination: there is nothing where it would lead.
            BindingInvalid: the exchange type refuses its arguments.
        """
        source = self._exchange(binding.source)
        target = self._target(binding.destination, binding.to_exchange)
        if target is None:
            raise UnknownDestination(binding.destination)
        if binding in source.bindings_from:
            return False
        source.table.add(binding, target)
        source.bindings_from[binding] = target
        target.bindings_to[binding] = None
        source.generation += 1
        return True

    def unbind(self, binding: Binding) -> bool:
        """Remove a binding; return False if there is none like it."""
        source = self._exchanges.get(binding.source)
        if source is None or binding not in source.bindings_from:
            return False
        target = source.bindings_from[binding]
        del target.bindings_to[binding]
        self._forget(source, binding)
        return True

    def has_binding(self, binding: Binding) -> bool:
        """Say whether there is a binding like it."""
        source = self._exchanges.get(binding.source)
        return source is not None and binding in source.bindings_from

    def bindings(self) -> Iterator[Binding]:
        """Return all bindings."""
        found: list[Binding] = []
        for exchange in self._exchanges.values():
            found.extend(exchange.bindings_from)
        return iter(found)

    def bindings_from(self, exchange: str) -> Iterator[Binding]:
        """Return the bindings of an exchange in the order they were made."""
        source = self._exchanges.get(exchange)
        return iter([] if source is None else list(source.bindings_from))

    def bindings_to(self, name: str, to_exchange: bool) -> Iterator[Binding]:
        """Return the bindings that lead to a destination or to an exchange."""
        target = self._target(name, to_exchange)
        return iter([] if target is None else list(target.bindings_to))

    def has_bindings_from(self, exchange: str) -> bool:
        """Say whether the exchange is there and has a binding."""
        source = self._exchanges.get(exchange)
        return source is not None and len(source.bindings_from) > 0

    # -- routing

    def history(self, exchange: str) -> list[Routable]:
        """Return the messages that the exchange keeps for newcomers, oldest first."""
        source = self._exchanges.get(exchange)
        if source is None:
            return []
        table = _within(source.table)
        if isinstance(table, DelayedTable):
            table = table.inner
        return table.history() if isinstance(table, RecentHistoryTable) else []

    def resolve(self, exchange: str, routable: Routable) -> Resolution[D]:
        """Return where it goes when it is published to an exchange.

        Raises:
            UnknownSource: there is no such exchange.
        """
        first = self._exchange(exchange)
        self._walk += 1
        first.seen_in = self._walk
        crossed = [first]
        destinations: list[D] = []
        # The list grows while it is walked: that is the breadth-first queue.
        for here in crossed:
            for target in self._next(here, routable):
                if target.seen_in == self._walk:
                    continue
                target.seen_in = self._walk
                if isinstance(target, Exchange):
                    crossed.append(target)
                else:
                    destinations.append(cast(D, cast(Destination, target).value))
        return Resolution(destinations, crossed)

    def _next(self, exchange: Exchange, routable: Routable) -> list[Target]:
        """Return where an exchange sends a message, itself or by its alternate."""
        found: list[Target] = []
        exchange.table.match(routable, found)
        if not found and exchange.alternate is not None:
            alternate = self._target(exchange.alternate, True)
            if exchange.alternate == DEFAULT_EXCHANGE:
                alternate = self._default
            if alternate is not None:
                found.append(alternate)
        return found

    def _exchange(self, name: str) -> Exchange:
        exchange = self._exchanges.get(name)
        if exchange is None:
            raise UnknownSource(name)
        return exchange

    def _target(self, name: str, is_exchange: bool) -> Target | None:
        if is_exchange:
            return self._exchanges.get(name)
        return self._destinations.get(name)

    def _remove_bindings_to(self, target: Target) -> list[Binding]:
        removed = list(target.bindings_to)
        for binding in removed:
            self._forget(self._exchanges[binding.source], binding)
        return removed

    def _forget(self, source: Exchange, binding: Binding) -> None:
        """Remove a binding that its target has forgotten already."""
        source.table.remove(binding)
        del source.bindings_from[binding]
        source.generation += 1


def _within(table: BindingTable) -> BindingTable:
    """Return the table of the type, whether or not ids are compared before it."""
    return table.inner if isinstance(table, DeduplicatingTable) else table
