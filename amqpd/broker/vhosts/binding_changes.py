"""Binding a queue or an exchange to an exchange, and undoing it.

A binding is durable when both its ends are; else it lives in memory, as in RabbitMQ.
Binding what is bound already, and undoing what is not there, succeeds and does nothing.
An auto-delete exchange ends with the last binding that leads away from it. Who binds to
an exchange with a history gets it before the answer.
"""

from typing import final

from amqpd.broker.catalogue.operation import Operation, Progress
from amqpd.broker.catalogue.statements import delete_binding, insert_binding
from amqpd.broker.errors import (
    AccessRefused,
    AmqpError,
    ChannelException,
    PreconditionFailed,
)
from amqpd.broker.exchange import TOPIC, Exchange, check_not_default, no_exchange
from amqpd.broker.queues.queue import Queue
from amqpd.broker.vhosts.access import Access
from amqpd.broker.vhosts.exchange_changes import Done
from amqpd.broker.vhosts.history import replay_history
from amqpd.broker.vhosts.queue_changes import doomed_statements, take_out_doomed
from amqpd.broker.vhosts.reply_queues import is_reply_name
from amqpd.broker.vhosts.topology import Topology, exchange_key, queue_key
from amqpd.wire.tables import type_name_in
from routing.binding import Binding
from routing.errors import BindingInvalid, BindingTypeInvalid


@final
class Bind(Operation):
    """A binding that a client asks for."""

    def __init__(
        self, topology: Topology, access: Access, binding: Binding, done: Done
    ) -> None:
        super().__init__({exchange_key(binding.source), destination_key(binding)})
        self._topology = topology
        self._access = access
        self._binding = binding
        self._done = done
        self._destination: Exchange | Queue | None = None

    def start(self) -> Progress:
        """Check both ends, and bind them."""
        topology = self._topology
        binding = self._binding
        check_allowed(self._access, binding)
        check_topic_allowed(self._access, topology, binding)
        source, destination = self._find_ends()
        is_new = self._bind()
        if is_new and source.durable and destination.durable:
            # It was valid and is new. No message takes this way before the commit.
            topology.router.unbind(binding)
            self._destination = destination
            topology.surroundings.catalogue.stage(
                insert_binding(topology.name, binding), self
            )
            return Progress.IN_FLIGHT
        if is_new:
            replay_history(topology, binding)
            self._tell()
        self._done(None)
        return Progress.DONE

    def finish(self, row_ids: list[int]) -> None:
        """The row is there: messages take this way from now on."""
        topology = self._topology
        binding = self._binding
        if find_destination(topology, binding) is self._destination:
            topology.router.bind(binding)
            replay_history(topology, binding)
            self._tell()
        else:
            # The queue has lost its last consumer meanwhile, and the row is gone.
            topology.note_maybe_unused(binding.source)
        self._done(None)

    def _tell(self) -> None:
        topology = self._topology
        topology.dead_letters.look_again()
        topology.surroundings.events.binding_created(
            self._binding, topology.name, self._access.user.name
        )

    def fail(self, error: AmqpError) -> None:
        """Nothing is bound."""
        self._done(error)

    def after(self) -> None:
        """Catch up with exchanges that ended meanwhile."""
        self._topology.drop_maybe_unused()

    def _find_ends(self) -> tuple[Exchange, Exchange | Queue]:
        topology = self._topology
        binding = self._binding
        source = topology.exchanges.get(binding.source)
        if source is None:
            raise no_exchange(binding.source, topology.name)
        destination = find_destination(topology, binding)
        if destination is None:
            if binding.to_exchange:
                raise no_exchange(binding.destination, topology.name)
            raise _no_destination(topology, binding.destination)
        if isinstance(destination, Queue):
            self._access.check_owner(destination)
        return source, destination

    def _bind(self) -> bool:
        """Return whether the binding is new."""
        try:
            return self._topology.router.bind(self._binding)
        except BindingTypeInvalid as error:
            # Only the octets know which of the integer types it was.
            type_name = type_name_in(self._binding.raw_arguments, error.key)
            raise PreconditionFailed(error.text(type_name)) from None
        except BindingInvalid as invalid:
            raise PreconditionFailed(str(invalid)) from None


def _no_destination(topology: Topology, name: str) -> ChannelException:
    if is_reply_name(name):
        resource = topology.queue_resource(name)
        return AccessRefused(f"cannot bind to {resource}: it takes direct replies")
    return topology.no_queue(name)


@final
class Unbind(Operation):
    """The end of a binding that a client asks for."""

    def __init__(
        self, topology: Topology, access: Access, binding: Binding, done: Done
    ) -> None:
        super().__init__({exchange_key(binding.source), destination_key(binding)})
        self._topology = topology
        self._access = access
        self._binding = binding
        self._done = done
        self._doomed: list[Exchange] = []

    def widen(self, names: set[str]) -> set[str]:
        """With the last binding of an exchange goes the exchange, and so on."""
        return self._topology.with_sources(names)

    def start(self) -> Progress:
        """Check, and let the row go first if there is one."""
        topology = self._topology
        binding = self._binding
        check_allowed(self._access, binding)
        check_topic_allowed(self._access, topology, binding)
        if not topology.router.has_binding(binding):
            self._done(None)
            return Progress.DONE
        destination = find_destination(topology, binding)
        assert destination is not None
        if isinstance(destination, Queue):
            self._access.check_owner(destination)
        self._doomed = topology.left_unused([binding])
        statements = doomed_statements(topology, self._doomed)
        if topology.exchanges[binding.source].durable and destination.durable:
            statements += delete_binding(topology.name, binding)
        if not statements:
            self.finish([])
            return Progress.DONE
        topology.surroundings.catalogue.stage(statements, self)
        return Progress.IN_FLIGHT

    def finish(self, row_ids: list[int]) -> None:
        """The row is gone: no message takes this way any more."""
        topology = self._topology
        # The queue may have gone meanwhile, and the binding with it.
        if topology.router.unbind(self._binding):
            topology.dead_letters.look_again()
            topology.surroundings.events.binding_deleted(
                self._binding, topology.name, self._access.user.name
            )
        take_out_doomed(topology, self._doomed)
        # Others may have gone meanwhile that were bound to the exchange as well.
        topology.note_maybe_unused(self._binding.source)
        self._done(None)

    def fail(self, error: AmqpError) -> None:
        """The binding stays."""
        self._done(error)

    def after(self) -> None:
        """Catch up with exchanges that ended meanwhile."""
        self._topology.drop_maybe_unused()


def check_allowed(access: Access, binding: Binding) -> None:
    """Check that the user may bind (or unbind) these two, whether they exist or not.

    Raises:
        AccessRefused: it is about the default exchange, or a right is missing.
    """
    check_not_default(binding.source)
    if binding.to_exchange:
        check_not_default(binding.destination)
        access.check_write("exchange", binding.destination)
    else:
        access.check_write("queue", binding.destination)
    access.check_read("exchange", binding.source)


def check_topic_allowed(access: Access, topology: Topology, binding: Binding) -> None:
    """Check that the user may use this routing key, if a topic exchange is there.

    Raises:
        AccessRefused: the key is not among those that the user may bind with.
    """
    source = topology.exchanges.get(binding.source)
    if source is not None and source.type_name == TOPIC:
        access.check_topic_read(binding.source, binding.key)


def find_destination(topology: Topology, binding: Binding) -> Exchange | Queue | None:
    """What a binding leads to, if it is there."""
    if binding.to_exchange:
        return topology.exchanges.get(binding.destination)
    return topology.queues.get(binding.destination)


def destination_key(binding: Binding) -> str:
    """How the line of operations calls what a binding leads to."""
    if binding.to_exchange:
        return exchange_key(binding.destination)
    return queue_key(binding.destination)
