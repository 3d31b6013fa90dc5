"""Declaring and deleting a queue.

A declaration of a queue that is there is a comparison; else the queue is made: at once
when it is transient, when its row is committed (which gives it its id) when it is
durable. A deletion is refused before anything happens or takes place; its row goes
first, then the name, the bindings and the messages. The order of checks is RabbitMQ's.
"""

from collections.abc import Callable
from typing import final

from amqpd.broker.arguments import (
    CLASSIC,
    DEAD_LETTER_EXCHANGE,
    QUORUM,
    Arguments,
    check_like_quorum,
    check_name_prefix,
    check_queue_arguments,
    check_same_property,
    check_same_queue_arguments,
    module_name,
    name_prefix,
    priority_level_count,
    queue_type,
    with_default_type,
)
from amqpd.broker.catalogue.catalogue import Statement
from amqpd.broker.catalogue.operation import Operation, Progress
from amqpd.broker.catalogue.statements import (
    delete_exchange,
    delete_queue,
    insert_queue,
)
from amqpd.broker.errors import AmqpError, PreconditionFailed
from amqpd.broker.exchange import Exchange, check_not_reserved
from amqpd.broker.queues.queue import Queue
from amqpd.broker.vhosts.access import Access, locked
from amqpd.broker.vhosts.topology import (
    GENERATED_PREFIX,
    Topology,
    queue_key,
)

QueueDone = Callable[[Queue | AmqpError], None]
CountDone = Callable[[int | AmqpError], None]


@final
class QueueProperties:
    """What a client says of a queue when it declares it, besides its name."""

    def __init__(
        self, durable: bool, exclusive: bool, auto_delete: bool, arguments: Arguments
    ) -> None:
        # A queue that ends with its connection is never durable.
        self.durable = durable and not exclusive
        self.exclusive = exclusive
        self.auto_delete = auto_delete
        self.arguments = arguments


@final
class FindQueue(Operation):
    """A passive declaration: is it there?"""

    def __init__(
        self, topology: Topology, access: Access, name: str, done: QueueDone
    ) -> None:
        super().__init__({queue_key(name)})
        self._topology = topology
        self._access = access
        self._name = name
        self._done = done

    def start(self) -> Progress:
        """Look."""
        queue = self._topology.find_queue(self._access, self._name)
        self._topology.queue_used(queue)
        self._done(queue)
        return Progress.DONE

    def fail(self, error: AmqpError) -> None:
        """It is not there, or belongs to somebody else."""
        self._done(error)


@final
class DeclareQueue(Operation):
    """A declaration."""

    def __init__(
        self,
        topology: Topology,
        access: Access,
        name: str,
        properties: QueueProperties,
        done: QueueDone,
    ) -> None:
        self._is_generated = not name
        self._is_coming = False
        if self._is_generated:
            own = name_prefix(properties.arguments.table)
            prefix = f"{own}-" if own else GENERATED_PREFIX
            name = topology.surroundings.new_name(prefix)
        super().__init__({queue_key(name)})
        self._topology = topology
        self._access = access
        self._name = name
        self._properties = self._with_type(properties)
        self._done = done

    def _with_type(self, properties: QueueProperties) -> QueueProperties:
        """Return it with the virtual host's type of queues, if it can be of that."""
        kind = self._topology.default_queue_type
        if kind != QUORUM or self._is_generated or cannot_be_quorum(properties):
            return properties
        return QueueProperties(
            properties.durable,
            properties.exclusive,
            properties.auto_delete,
            with_default_type(properties.arguments, kind),
        )

    def start(self) -> Progress:
        """Compare with the queue that is there, or make one."""
        topology = self._topology
        properties = self._properties
        name = self._name
        queue = topology.queues.get(name)
        self._check_name(queue is None)
        self._access.check_configure("queue", name)
        if queue is not None:
            self._check_same(queue)
            topology.surroundings.churn.queues_declared += 1
            topology.queue_used(queue)
            self._done(queue)
            return Progress.DONE
        self._check_new()
        if self._access.is_closed:
            return Progress.DONE
        level_count = priority_level_count(properties.arguments.table)
        if properties.durable:
            statements = insert_queue(
                topology.name,
                name,
                properties.auto_delete,
                properties.arguments.raw,
                level_count,
            )
            topology.surroundings.catalogue.stage(statements, self)
            topology.coming_queue_count += 1
            self._is_coming = True
            return Progress.IN_FLIGHT
        self._make(topology.surroundings.take_transient_id(level_count))
        return Progress.DONE

    def finish(self, row_ids: list[int]) -> None:
        """The row is there: make the queue with its id."""
        self._topology.coming_queue_count -= 1
        self._make(row_ids[0])

    def fail(self, error: AmqpError) -> None:
        """There is no such queue now."""
        if self._is_coming:
            self._topology.coming_queue_count -= 1
        self._done(error)

    def after(self) -> None:
        """Catch up with exchanges that ended meanwhile."""
        self._topology.drop_maybe_unused()

    def _make(self, queue_id: int) -> None:
        properties = self._properties
        owner = self._access.connection if properties.exclusive else None
        queue = self._topology.make_queue(
            queue_id,
            self._name,
            properties.durable,
            properties.auto_delete,
            owner,
            properties.arguments,
        )
        surroundings = self._topology.surroundings
        surroundings.churn.queues_declared += 1
        surroundings.churn.queues_created += 1
        surroundings.events.queue_created(queue, self._access.user.name)
        self._done(queue)

    def _check_name(self, is_new: bool) -> None:
        kind = queue_type(self._properties.arguments.table)
        if self._is_generated:
            if kind == QUORUM:
                raise PreconditionFailed(
                    f"Cannot declare a server-named queue for type {module_name(kind)}"
                )
            arguments = self._properties.arguments
            check_name_prefix(arguments, self._topology.queue_resource(""))
            if name_prefix(arguments.table):
                check_not_reserved("queue", self._name)
        elif is_new:
            check_not_reserved("queue", self._name)

    def _check_same(self, queue: Queue) -> None:
        properties = self._properties
        resource = self._topology.queue_resource(self._name)
        if self._may_be_classic(queue):
            check_like_quorum(
                Arguments(queue.arguments, queue.raw_arguments),
                properties.arguments,
                resource,
            )
            return
        owner = self._access.connection if properties.exclusive else None
        if queue.exclusive_owner is not owner:
            raise locked(queue.name, self._topology.name)
        check_same_property("durable", queue.durable, properties.durable, resource)
        check_same_property(
            "auto_delete", queue.auto_delete, properties.auto_delete, resource
        )
        check_same_queue_arguments(
            Arguments(queue.arguments, queue.raw_arguments),
            properties.arguments,
            resource,
        )

    def _may_be_classic(self, queue: Queue) -> bool:
        """Whether it is a quorum queue, is taken for a classic one, and may be."""
        return (
            self._topology.surroundings.relaxes_quorum_checks
            and queue_type(queue.arguments) == QUORUM
            and queue_type(self._properties.arguments.table) == CLASSIC
        )

    def _check_new(self) -> None:
        access = self._access
        arguments = self._properties.arguments
        resource = self._topology.queue_resource(self._name)
        dead_letters = arguments.exchange_name(DEAD_LETTER_EXCHANGE, resource)
        if dead_letters is not None:
            access.check_read("queue", self._name)
            access.check_write("exchange", dead_letters)
        self._check_limit()
        check_queue_arguments(arguments, resource)
        if queue_type(arguments.table) == QUORUM:
            self._check_quorum(resource)

    def _check_quorum(self, resource: str) -> None:
        """A quorum queue outlives connections, consumers and restarts."""
        wrong = cannot_be_quorum(self._properties)
        if wrong:
            raise PreconditionFailed(f"invalid property '{wrong}' for {resource}")

    def _check_limit(self) -> None:
        topology = self._topology
        limit = topology.surroundings.admission.queue_limit(topology.name)
        if 0 <= limit <= len(topology.queues) + topology.coming_queue_count:
            raise PreconditionFailed(
                f"cannot declare queue '{self._name}': queue limit in vhost "
                f"'{topology.name}' ({limit}) is reached"
            )
        node = topology.surroundings.admission.node_limits
        if node.queue_max >= 0:
            node.check_queues(self._name, topology.surroundings.queue_count())


def cannot_be_quorum(properties: QueueProperties) -> str:
    """What a quorum queue cannot be, and these properties make it; else empty."""
    if properties.auto_delete:
        return "auto-delete"
    if properties.exclusive:
        return "exclusive-owner"
    return "" if properties.durable else "non-durable"


@final
class DeleteQueue(Operation):
    """A deletion that a client asks for."""

    def __init__(
        self,
        topology: Topology,
        access: Access,
        name: str,
        if_unused: bool,
        if_empty: bool,
        done: CountDone,
    ) -> None:
        super().__init__({queue_key(name)})
        self._topology = topology
        self._access = access
        self._name = name
        self._if_unused = if_unused
        self._if_empty = if_empty
        self._done = done
        self._queue: Queue | None = None
        self._doomed: list[Exchange] = []

    def widen(self, names: set[str]) -> set[str]:
        """With the queue may go what is bound to it."""
        return self._topology.with_sources(names)

    def start(self) -> Progress:
        """Check, and let the rows go first if there are any."""
        topology = self._topology
        name = self._name
        self._access.check_configure("queue", name)
        queue = topology.queues.get(name)
        if queue is None:
            self._done(0)
            return Progress.DONE
        self._check(queue)
        self._queue = queue
        self._doomed = topology.left_unused(
            list(topology.router.bindings_to(name, False))
        )
        statements = doomed_statements(topology, self._doomed)
        if queue.durable:
            statements += delete_queue(topology.name, int(queue.id), name)
        if not statements:
            self._delete(queue)
            return Progress.DONE
        topology.leaving.add(name)
        topology.surroundings.catalogue.stage(statements, self)
        return Progress.IN_FLIGHT

    def finish(self, row_ids: list[int]) -> None:
        """The rows are gone: now the queue."""
        assert self._queue is not None
        self._delete(self._queue)

    def fail(self, error: AmqpError) -> None:
        """The queue stays."""
        self._topology.leaving.discard(self._name)
        self._done(error)

    def after(self) -> None:
        """Catch up with exchanges that ended meanwhile."""
        self._topology.drop_maybe_unused()

    def _check(self, queue: Queue) -> None:
        self._access.check_owner(queue)
        resource = self._topology.queue_resource(queue.name)
        keeper = queue.keeper
        waits = keeper is not None and keeper.waiting_count() + keeper.held_count
        if self._if_empty and (queue.ready_count or waits):
            raise PreconditionFailed(f"{resource} not empty")
        if self._if_unused and queue.consumer_count:
            raise PreconditionFailed(f"{resource} in use")

    def _delete(self, queue: Queue) -> None:
        take_out_doomed(self._topology, self._doomed)
        count = 0
        # Its last consumer may have gone meanwhile, and the queue with it.
        if not queue.is_deleted:
            user = self._access.user.name
            for binding in self._topology.take_out_queue(queue, user):
                self._topology.note_maybe_unused(binding.source)
            count = queue.delete()
        self._topology.leaving.discard(self._name)
        self._done(count)


def doomed_statements(topology: Topology, doomed: list[Exchange]) -> list[Statement]:
    """What to remove of exchanges that lose their last binding."""
    statements: list[Statement] = []
    for exchange in doomed:
        if exchange.durable:
            statements += delete_exchange(topology.name, exchange.name)
    return statements


def take_out_doomed(topology: Topology, doomed: list[Exchange]) -> None:
    """Remove exchanges that have lost their last binding."""
    for exchange in doomed:
        if topology.exchanges.get(exchange.name) is not exchange:
            continue
        for binding in topology.take_out_exchange(exchange):
            # Others may have gone meanwhile that were bound to the source as well.
            topology.note_maybe_unused(binding.source)
