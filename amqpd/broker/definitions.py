"""Loading definitions: what a file says is there afterwards, and committed.

    loading.plan()          what is new, and whether it fits what is there
    loading.statements      all of it in one commit, so nothing is loaded in part
    loading.adopt()         who there is and what is set, with the commit
    loading.make(row_ids)   what is declared, in memory
    loading.end()           others may have the names again

Users, permissions, virtual hosts and parameters become what the file says; queues,
exchanges and bindings that are there already stay as they are. Loading a file again
changes nothing. At start nobody is connected and all of it happens at once. Later
everything that the file names is held: whoever comes with one of these names waits, and
`plan` and `make` are done in slices. What takes effect with the commit does so in the
order of commits, so who is deleted after it is not there again.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Final, final

from amqpd.auth.users import User
from amqpd.broker.arguments import priority_level_count, with_default_type
from amqpd.broker.broker import Broker
from amqpd.broker.catalogue.catalogue import CommitWaiter, Statement
from amqpd.broker.catalogue.operation import Operation, OperationLine, Progress
from amqpd.broker.catalogue.statements import (
    delete_binding,
    delete_parameter,
    insert_binding,
    insert_exchange,
    insert_queue,
    put_parameter,
    put_permission,
    put_topic_permission,
    put_user,
    put_vhost,
)
from amqpd.broker.definition_file import (
    Definitions,
    DefinitionsInvalid,
    QueueDefinition,
    read_definitions,
)
from amqpd.broker.errors import AmqpError, ResourceError
from amqpd.broker.exchange import (
    RESERVED_PREFIX,
    Exchange,
    exchange_resource,
    predeclared,
)
from amqpd.broker.policies.parameters import (
    GLOBAL,
    NO_VHOST,
    OPERATOR_POLICY,
    POLICY,
    USER_LIMITS,
    VHOST_LIMITS,
    Parameter,
)
from amqpd.broker.policies.vhost_metadata import NO_METADATA, VhostMetadata
from amqpd.broker.vhosts.queue_changes import QueueProperties, cannot_be_quorum
from amqpd.broker.vhosts.topology import Topology, exchange_key, queue_key
from amqpd.broker.vhosts.vhost import VirtualHost
from routing.binding import Binding
from routing.errors import RoutingError
from routing.router import Router

logger = logging.getLogger(__name__)

_WITH_EFFECT: Final = frozenset({GLOBAL, OPERATOR_POLICY, POLICY, VHOST_LIMITS})

RowsDone = Callable[[list[int] | AmqpError], None]


def load_definitions(broker: Broker, parsed: object) -> None:
    """Make what a parsed JSON file in RabbitMQ's format defines; at start only.

    Raises:
        DefinitionsInvalid: the file cannot be used; nothing has changed on the disk.
        CommitFailed: the disk would not take it.
    """
    definitions = read_definitions(parsed)
    hash_passwords(broker, definitions)
    loading = Loading(broker, definitions)
    for _ in loading.plan():
        pass
    row_ids: list[int] = []
    if loading.statements:
        row_ids = broker.catalogue.commit_now(loading.statements)
    loading.adopt()
    for _ in loading.make(row_ids):
        pass
    loading.end()


def hash_passwords(broker: Broker, definitions: Definitions) -> None:
    """Hash passwords that are in a file as they are; takes its time."""
    for index, user in enumerate(definitions.users):
        password = definitions.passwords.get(user.name)
        if password is not None:
            hashed, algorithm = broker.hash_password(password)
            definitions.users[index] = User(user.name, hashed, algorithm, user.tags)


@final
class NameHold(Operation):
    """Keeps everybody else away from names, from when it is their turn until `end`."""

    def __init__(self, names: set[str], done: Callable[[AmqpError | None], None]):
        super().__init__(names)
        self._done = done

    def start(self) -> Progress:
        """The names are free."""
        self._done(None)
        return Progress.IN_FLIGHT

    def finish(self, row_ids: list[int]) -> None:
        """Nothing waits for that."""

    def fail(self, error: AmqpError) -> None:
        """The virtual host is going."""
        self._done(error)

    def end(self) -> None:
        """Let the others go on."""
        assert self.line is not None
        self.line.complete(self, [], None)


@final
class _Rows(CommitWaiter):
    """Waits for the rows."""

    def __init__(self, loading: "Loading", done: RowsDone) -> None:
        self._loading = loading
        self._done = done

    def on_committed(self, row_ids: list[int]) -> None:
        """They are there."""
        self._loading.adopt()
        self._done(row_ids)

    def on_commit_failed(self, error: Exception) -> None:
        """Nothing is."""
        self._done(ResourceError(f"the change could not be stored: {error}"))


@final
class Loading:
    """One load: what is new, first on the disk, then in memory."""

    def __init__(self, broker: Broker, definitions: Definitions) -> None:
        for vhost, name in definitions.left_out:
            logger.warning(
                "definitions: queue '%s' in vhost '%s' is a stream, which is not "
                "supported: it and its bindings are left out",
                name,
                vhost,
            )
        self.statements: list[Statement] = []
        self._broker = broker
        self._definitions = definitions
        #: How many queues of the file are not made.
        self.left_out_count = len(definitions.left_out)
        self._metadata: dict[str, VhostMetadata] = {}
        self._exchanges: list[tuple[str, Exchange]] = []
        self._queues: list[QueueDefinition] = []
        # Where in the statements a durable queue is inserted; its row id is its id.
        self._insertions: dict[tuple[str, str], int] = {}
        # And where the id of what waits at a durable exchange is taken.
        self._waiting_rooms: dict[tuple[str, str], int] = {}
        self._bindings: list[tuple[str, Binding]] = []
        # What there will be: name -> whether it is durable.
        self._known_exchanges: dict[tuple[str, str], bool] = {}
        self._known_queues: dict[tuple[str, str], bool] = {}
        # Virtual hosts as they are expected to be; later with those that are made.
        self._there = dict(broker.vhosts)
        # Names in virtual hosts that are new, held from their first moment on.
        self._new_holds: list[NameHold] = []
        # Where bindings are tried before anything is changed, by virtual host.
        self._trials: dict[str, Router[None]] = {}

    # -- while clients are connected -------------------------------------------

    def names(self) -> dict[str, set[str]]:
        """Return what is to be held, by virtual host, of those that are there."""
        names = self._all_names()
        return {vhost: names[vhost] for vhost in names if vhost in self._broker.vhosts}

    def _all_names(self) -> dict[str, set[str]]:
        names: dict[str, set[str]] = {}
        for vhost, exchange in self._definitions.exchanges:
            names.setdefault(vhost, set()).add(exchange_key(exchange.name))
        for queue in self._definitions.queues:
            names.setdefault(queue.vhost, set()).add(queue_key(queue.name))
        for vhost, binding in self._definitions.bindings:
            key = exchange_key if binding.to_exchange else queue_key
            held = names.setdefault(vhost, set())
            held.update((exchange_key(binding.source), key(binding.destination)))
        return names

    def line_of(self, vhost: str) -> OperationLine | None:
        """Return the line of operations of a virtual host, if that is still there."""
        there = self._broker.vhosts.get(vhost)
        return None if there is None else there.topology.line

    def stage(self, done: RowsDone) -> None:
        """Leave the rows with the catalogue; `done` gets their ids.

        Raises:
            DefinitionsInvalid: they were planned for users and virtual hosts that have
                gone meanwhile, or for one that was not there.
        """
        self._check_nothing_gone()
        if self.statements:
            self._broker.catalogue.stage(self.statements, _Rows(self, done))
        else:
            self.adopt()
            done([])

    def _check_nothing_gone(self) -> None:
        definitions, vhosts = self._definitions, self._vhost_names()
        for vhost in self._trials:
            _check_there("vhost", vhost, vhosts)
        self._check_rights(vhosts, self._user_names())
        for parameter in definitions.parameters:
            if parameter.component != GLOBAL:
                _check_there("vhost", parameter.vhost, vhosts)
        for vhost in [*self._metadata, *self._trials]:
            if self._broker.vhosts.get(vhost) is not self._there.get(vhost):
                raise DefinitionsInvalid(f"vhost '{vhost}' has come or gone meanwhile")

    # -- planning -------------------------------------------------------------

    def plan(self) -> Iterator[None]:
        """Find out what is new and whether it fits what is there.

        Raises:
            DefinitionsInvalid: something refers to what does not exist.
        """
        names = self._vhost_names()
        for name, fields in self._definitions.vhosts:
            there = self._broker.vhosts.get(name)
            before = self._metadata.get(
                name, NO_METADATA if there is None else there.metadata
            )
            self._metadata[name] = before.with_fields(fields)
            self.statements += put_vhost(name, self._metadata[name].fields())
        self._plan_rights(names)
        self._plan_parameters(names)
        yield
        for vhost in self._vhosts_touched(names):
            yield from self._note_existing(vhost)
        for vhost, exchange in self._definitions.exchanges:
            self._plan_exchange(vhost, exchange)
            yield
        for queue in self._definitions.queues:
            self._plan_queue(queue)
            yield
        self._check_queue_limits()
        for vhost, binding in self._definitions.bindings:
            self._plan_binding(vhost, binding)
            yield

    def _vhost_names(self) -> set[str]:
        names = set(self._broker.vhosts)
        names.update(name for name, _ in self._definitions.vhosts)
        return names

    def _vhosts_touched(self, names: set[str]) -> list[str]:
        definitions = self._definitions
        touched = {vhost for vhost, _ in definitions.exchanges}
        touched.update(queue.vhost for queue in definitions.queues)
        touched.update(vhost for vhost, _ in definitions.bindings)
        for vhost in sorted(touched):
            _check_there("vhost", vhost, names)
        return sorted(touched)

    def _user_names(self) -> set[str]:
        names = set(self._broker.users.names())
        names.update(user.name for user in self._definitions.users)
        return names

    def _check_rights(self, vhosts: set[str], users: set[str]) -> None:
        definitions = self._definitions
        ends = [(one.user, one.vhost) for one in definitions.permissions]
        ends += [(one.user, one.vhost) for one in definitions.topic_permissions]
        for user, vhost in ends:
            _check_there("user", user, users)
            _check_there("vhost", vhost, vhosts)

    def _plan_rights(self, vhosts: set[str]) -> None:
        self._check_rights(vhosts, self._user_names())
        for user in self._definitions.users:
            self.statements += put_user(
                user.name, user.password_hash, user.algorithm, user.tags
            )
        for rights in self._definitions.permissions:
            self.statements += put_permission(
                rights.user,
                rights.vhost,
                rights.configure,
                rights.write,
                rights.read,
            )
        for topic in self._definitions.topic_permissions:
            self.statements += put_topic_permission(
                topic.user, topic.vhost, topic.exchange, topic.write, topic.read
            )

    def _plan_parameters(self, vhosts: set[str]) -> None:
        for name, limits in self._definitions.user_limits.items():
            if limits:
                self.statements += put_parameter(NO_VHOST, USER_LIMITS, name, limits)
            else:
                self.statements += delete_parameter(NO_VHOST, USER_LIMITS, name)
        for parameter in self._definitions.parameters:
            if parameter.component != GLOBAL:
                _check_there("vhost", parameter.vhost, vhosts)
            self.statements += put_parameter(
                parameter.vhost, parameter.component, parameter.name, parameter.value
            )
            if parameter.component not in _WITH_EFFECT:
                logger.warning(
                    "definitions: parameter '%s' of %s is kept, but nothing acts on it",
                    parameter.name,
                    parameter.component,
                )

    def _note_existing(self, vhost: str) -> Iterator[None]:
        self._trials[vhost] = Router()
        there = self._broker.vhosts.get(vhost)
        exchanges = predeclared() if there is None else there.exchanges.values()
        for exchange in list(exchanges):
            self._note_exchange(vhost, exchange)
            yield
        if there is not None:
            for queue in list(there.queues.values()):
                self._note_queue(vhost, queue.name, queue.durable)
                yield

    def _note_exchange(self, vhost: str, exchange: Exchange) -> None:
        self._known_exchanges[(vhost, exchange.name)] = exchange.durable
        self._trials[vhost].add_exchange(
            exchange.name, exchange.type_name, None, exchange.arguments.table
        )

    def _note_queue(self, vhost: str, name: str, durable: bool) -> None:
        self._known_queues[(vhost, name)] = durable
        self._trials[vhost].add_destination(name, None)

    def _plan_exchange(self, vhost: str, exchange: Exchange) -> None:
        key = (vhost, exchange.name)
        if key in self._known_exchanges or not exchange.name:
            return
        if exchange.name.startswith(RESERVED_PREFIX):
            resource = exchange_resource(exchange.name, vhost)
            raise DefinitionsInvalid(f"{resource} has a reserved name")
        self._note_exchange(vhost, exchange)
        self._exchanges.append((vhost, exchange))
        if exchange.durable:
            self._waiting_rooms[key] = len(self.statements)
            self.statements += insert_exchange(vhost, exchange)

    def _plan_queue(self, queue: QueueDefinition) -> None:
        key = (queue.vhost, queue.name)
        if key in self._known_queues:
            return
        if not queue.has_type:
            queue.properties = self._with_type(queue)
        properties = queue.properties
        self._note_queue(queue.vhost, queue.name, properties.durable)
        self._queues.append(queue)
        if properties.durable:
            self._insertions[key] = len(self.statements)
            self.statements += insert_queue(
                queue.vhost,
                queue.name,
                properties.auto_delete,
                properties.arguments.raw,
                priority_level_count(properties.arguments.table),
            )

    def _with_type(self, queue: QueueDefinition) -> QueueProperties:
        """The virtual host says of what type it is, if it can be of that."""
        there = self._broker.vhosts.get(queue.vhost)
        metadata = self._metadata.get(
            queue.vhost, NO_METADATA if there is None else there.metadata
        )
        properties = queue.properties
        if metadata.default_queue_type is None or cannot_be_quorum(properties):
            return properties
        arguments = with_default_type(properties.arguments, metadata.default_queue_type)
        return QueueProperties(
            properties.durable, False, properties.auto_delete, arguments
        )

    def _check_queue_limits(self) -> None:
        coming: dict[str, int] = {}
        for queue in self._queues:
            coming[queue.vhost] = coming.get(queue.vhost, 0) + 1
        for vhost, count in coming.items():
            limit = self._broker.admission.queue_limit(vhost)
            there = self._broker.vhosts.get(vhost)
            present = 0 if there is None else len(there.queues)
            if 0 <= limit < present + count:
                raise DefinitionsInvalid(
                    f'Adding {count} queue(s) to virtual host "{vhost}" would exceed '
                    f"the limit of {limit} queue(s).\n\nThis virtual host currently "
                    f"has {present} queue(s) defined.\n\nImport aborted!"
                )

    def _plan_binding(self, vhost: str, binding: Binding) -> None:
        if not binding.source:
            return
        try:
            is_new = self._trials[vhost].bind(binding)
        except RoutingError as error:
            raise DefinitionsInvalid(
                f"binding from '{binding.source}' to '{binding.destination}' in vhost "
                f"'{vhost}': {error}"
            ) from None
        if not is_new or self._is_bound(vhost, binding):
            return
        self._bindings.append((vhost, binding))
        if self._is_durable(vhost, binding):
            self.statements += insert_binding(vhost, binding)

    def _is_bound(self, vhost: str, binding: Binding) -> bool:
        """Whether there is such a binding: JSON does not tell one integer's type."""
        there = self._broker.vhosts.get(vhost)
        if there is None:
            return False
        if there.router.has_binding(binding):
            return True
        if not binding.arguments:
            return False
        ends = there.router.bindings_to(binding.destination, binding.to_exchange)
        for other in ends:
            if (other.source, other.key, other.arguments) == (
                binding.source,
                binding.key,
                binding.arguments,
            ):
                return True
        return False

    def _is_durable(self, vhost: str, binding: Binding) -> bool:
        ends = self._known_exchanges if binding.to_exchange else self._known_queues
        source = self._known_exchanges[(vhost, binding.source)]
        return source and ends[(vhost, binding.destination)]

    # -- making ---------------------------------------------------------------

    def adopt(self) -> None:
        """Let users, rights, virtual hosts and parameters be as committed."""
        broker = self._broker
        for name, metadata in self._metadata.items():
            self._adopt_vhost(name, metadata)
        for user in self._definitions.users:
            broker.users.put(user)
        for permission in self._definitions.permissions:
            broker.permissions.put(permission)
        for topic in self._definitions.topic_permissions:
            broker.permissions.put_topic(topic)
        self._adopt_parameters()

    def _adopt_vhost(self, name: str, metadata: VhostMetadata) -> None:
        broker = self._broker
        before = self._there.get(name)
        if before is not None and broker.vhosts.get(name) is not before:
            # It is being deleted: its rows follow.
            return
        is_new = name not in broker.vhosts
        broker.add_vhost(name, metadata)
        self._there[name] = broker.vhosts[name]
        if is_new:
            hold = NameHold(self._all_names().get(name, set()), _nobody_waits)
            broker.vhosts[name].topology.line.submit(hold)
            self._new_holds.append(hold)

    def end(self) -> None:
        """Let others have the names in virtual hosts that were made."""
        holds = self._new_holds
        self._new_holds = []
        for hold in holds:
            hold.end()

    def make(self, row_ids: list[int]) -> Iterator[None]:
        """Make what has been committed; what has gone meanwhile is left out."""
        for vhost, exchange in self._exchanges:
            there = self._still_there(vhost)
            if there is not None:
                insertion = self._waiting_rooms.get((vhost, exchange.name))
                room_id = 0 if insertion is None else row_ids[insertion]
                there.topology.add_exchange(exchange, room_id)
            yield
        for queue in self._queues:
            there = self._still_there(queue.vhost)
            if there is not None:
                self._make_queue(there.topology, queue, row_ids)
            yield
        for vhost, binding in self._bindings:
            there = self._still_there(vhost)
            if there is not None:
                self._make_binding(there, binding)
            yield

    def _still_there(self, name: str) -> VirtualHost | None:
        """Return the virtual host, if it is the one that was planned for."""
        there = self._broker.vhosts.get(name)
        return there if there is self._there.get(name) else None

    def _make_binding(self, vhost: VirtualHost, binding: Binding) -> None:
        try:
            vhost.router.bind(binding)
        except RoutingError:
            # An end of it that nobody names has ended meanwhile: a queue that expired.
            self._broker.catalogue.stage_errand(delete_binding(vhost.name, binding))

    def _adopt_parameters(self) -> None:
        changes = self._broker.changes
        parameters = list(self._definitions.parameters)
        for name, limits in self._definitions.user_limits.items():
            if limits:
                parameters.append(Parameter(NO_VHOST, USER_LIMITS, name, limits))
            else:
                changes.forget_user(name)
        changes.adopt(parameters)

    def _make_queue(
        self, topology: Topology, queue: QueueDefinition, row_ids: list[int]
    ) -> None:
        properties = queue.properties
        insertion = self._insertions.get((queue.vhost, queue.name))
        if insertion is None:
            level_count = priority_level_count(properties.arguments.table)
            queue_id = int(topology.surroundings.take_transient_id(level_count))
        else:
            queue_id = row_ids[insertion]
        topology.make_queue(
            queue_id,
            queue.name,
            properties.durable,
            properties.auto_delete,
            None,
            properties.arguments,
        )


def _nobody_waits(error: AmqpError | None) -> None:
    """A name in a virtual host that is new is free at once."""


def _check_there(kind: str, name: str, names: set[str]) -> None:
    if name not in names:
        raise DefinitionsInvalid(f"there is no {kind} '{name}'")
