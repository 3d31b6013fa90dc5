"""Declaring and deleting an exchange.

As with queues: what is there is compared, what is transient is made at once, what is
durable when its row is committed. With an exchange go all bindings from it and to it,
and auto-delete exchanges that were bound to nothing else. The order of checks is
RabbitMQ's, but for an unknown type: that closes the channel, as in RabbitMQ 4.
"""

from collections.abc import Callable
from typing import final

from amqpd.broker.arguments import ALTERNATE_EXCHANGE
from amqpd.broker.catalogue.operation import Operation, Progress
from amqpd.broker.catalogue.statements import delete_exchange, insert_exchange
from amqpd.broker.errors import AccessRefused, AmqpError, PreconditionFailed
from amqpd.broker.exchange import (
    RESERVED_PREFIX,
    Exchange,
    check_not_default,
    check_not_reserved,
    check_type,
    check_type_arguments,
    exchange_resource,
    no_exchange,
)
from amqpd.broker.vhosts.access import Access
from amqpd.broker.vhosts.queue_changes import doomed_statements, take_out_doomed
from amqpd.broker.vhosts.topology import Topology, exchange_key

# Called with None when it is done.
Done = Callable[[AmqpError | None], None]


@final
class FindExchange(Operation):
    """A passive declaration: is it there?"""

    def __init__(self, topology: Topology, name: str, done: Done) -> None:
        super().__init__({exchange_key(name)})
        self._topology = topology
        self._name = name
        self._done = done

    def start(self) -> Progress:
        """Look."""
        check_not_default(self._name)
        if self._name not in self._topology.exchanges:
            raise no_exchange(self._name, self._topology.name)
        self._done(None)
        return Progress.DONE

    def fail(self, error: AmqpError) -> None:
        """It is not there."""
        self._done(error)


@final
class DeclareExchange(Operation):
    """A declaration."""

    def __init__(
        self, topology: Topology, access: Access, exchange: Exchange, done: Done
    ) -> None:
        super().__init__({exchange_key(exchange.name)})
        self._topology = topology
        self._access = access
        self._exchange = exchange
        self._done = done

    def start(self) -> Progress:
        """Compare with the exchange that is there, or make one."""
        topology = self._topology
        exchange = self._exchange
        check_type(exchange.type_name)
        check_not_default(exchange.name)
        self._access.check_configure("exchange", exchange.name)
        current = topology.exchanges.get(exchange.name)
        if current is not None:
            current.check_same(exchange, topology.name)
            self._done(None)
            return Progress.DONE
        self._check_new()
        if exchange.durable:
            topology.surroundings.catalogue.stage(
                insert_exchange(topology.name, exchange), self
            )
            return Progress.IN_FLIGHT
        self.finish([])
        return Progress.DONE

    def finish(self, row_ids: list[int]) -> None:
        """The row is there: make the exchange known."""
        topology = self._topology
        topology.add_exchange(self._exchange, row_ids[0] if row_ids else 0)
        topology.surroundings.events.exchange_created(
            self._exchange, topology.name, self._access.user.name
        )
        self._done(None)

    def fail(self, error: AmqpError) -> None:
        """There is no such exchange now."""
        self._done(error)

    def after(self) -> None:
        """Catch up with exchanges that ended meanwhile."""
        self._topology.drop_maybe_unused()

    def _check_new(self) -> None:
        name = self._exchange.name
        check_not_reserved("exchange", name)
        alternate = self._exchange.arguments.exchange_name(
            ALTERNATE_EXCHANGE, exchange_resource(name, self._topology.name)
        )
        if alternate is not None:
            self._access.check_read("exchange", name)
            self._access.check_write("exchange", alternate)
        check_type_arguments(self._exchange)
        surroundings = self._topology.surroundings
        node = surroundings.admission.node_limits
        if node.exchange_max >= 0:
            node.check_exchanges(name, surroundings.exchange_count())


@final
class DeleteExchange(Operation):
    """A deletion."""

    def __init__(
        self,
        topology: Topology,
        access: Access,
        name: str,
        if_unused: bool,
        done: Done,
    ) -> None:
        super().__init__({exchange_key(name)})
        self._topology = topology
        self._access = access
        self._name = name
        self._if_unused = if_unused
        self._done = done
        self._exchange: Exchange | None = None
        self._doomed: list[Exchange] = []

    def widen(self, names: set[str]) -> set[str]:
        """With the exchange may go what is bound to it."""
        return self._topology.with_sources(names)

    def start(self) -> Progress:
        """Check, and let the rows go first if there are any."""
        topology = self._topology
        name = self._name
        self._check_name()
        exchange = topology.exchanges.get(name)
        if exchange is None:
            self._done(None)
            return Progress.DONE
        if self._if_unused and topology.router.has_bindings_from(name):
            raise PreconditionFailed(f"{exchange_resource(name, topology.name)} in use")
        self._exchange = exchange
        self._doomed = topology.left_unused(
            list(topology.router.bindings_to(name, True))
        )
        statements = doomed_statements(topology, self._doomed)
        if exchange.durable:
            statements += delete_exchange(topology.name, name)
        if not statements:
            self.finish([])
            return Progress.DONE
        topology.surroundings.catalogue.stage(statements, self)
        return Progress.IN_FLIGHT

    def finish(self, row_ids: list[int]) -> None:
        """The rows are gone: now the exchange."""
        assert self._exchange is not None
        take_out_doomed(self._topology, [self._exchange, *self._doomed])
        self._done(None)

    def fail(self, error: AmqpError) -> None:
        """The exchange stays."""
        self._done(error)

    def after(self) -> None:
        """Catch up with exchanges that ended meanwhile."""
        self._topology.drop_maybe_unused()

    def _check_name(self) -> None:
        name = self._name
        check_not_default(name)
        if name.startswith(RESERVED_PREFIX):
            resource = exchange_resource(name, self._topology.name)
            raise AccessRefused(f"deletion of system {resource} not allowed")
        self._access.check_configure("exchange", name)
