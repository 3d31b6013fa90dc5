"""Loading definitions at start: what a file says is there afterwards, and committed.

Users, permissions and virtual hosts become what the file says; queues, exchanges and
bindings that are there already stay as they are. Loading a file again changes nothing.
All of it is one commit, so a file that cannot be loaded has not been loaded in part.
Nobody is connected yet, so the commit may block.
"""

import logging
from typing import final

from amqpd.auth.passwords import DEFAULT_ALGORITHM, hash_password
from amqpd.auth.users import User
from amqpd.broker.arguments import priority_level_count
from amqpd.broker.broker import SALT_SIZE, Broker
from amqpd.broker.catalogue import Statement
from amqpd.broker.definition_file import (
    Definitions,
    DefinitionsInvalid,
    QueueDefinition,
    read_definitions,
)
from amqpd.broker.exchange import (
    RESERVED_PREFIX,
    Exchange,
    exchange_resource,
    predeclared,
)
from amqpd.broker.statements import (
    insert_binding,
    insert_exchange,
    insert_queue,
    put_parameter,
    put_permission,
    put_topic_permission,
    put_user,
    put_vhost,
)
from routing.binding import Binding
from routing.errors import RoutingError
from routing.router import Router

logger = logging.getLogger(__name__)


def load_definitions(broker: Broker, parsed: object) -> None:
    """Make what a parsed JSON file in RabbitMQ's format defines.

    Raises:
        DefinitionsInvalid: the file cannot be used; nothing has changed on the disk.
        CommitFailed: the disk would not take it.
    """
    definitions = read_definitions(parsed)
    _hash_passwords(broker, definitions)
    loading = Loading(broker, definitions)
    loading.plan()
    loading.commit()
    for parameter in definitions.parameters:
        logger.warning(
            "definitions: %s '%s' is kept but not applied yet",
            parameter.component or "global parameter",
            parameter.name,
        )


def _hash_passwords(broker: Broker, definitions: Definitions) -> None:
    for index, user in enumerate(definitions.users):
        password = definitions.passwords.get(user.name)
        if password is not None:
            hashed = hash_password(password, broker.random_octets(SALT_SIZE))
            definitions.users[index] = User(
                user.name, hashed, DEFAULT_ALGORITHM, user.tags
            )


@final
class Loading:
    """One load: what is new, first on the disk, then in memory."""

    def __init__(self, broker: Broker, definitions: Definitions) -> None:
        self._broker = broker
        self._definitions = definitions
        self._statements: list[Statement] = []
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
        # Where bindings are tried before anything is changed, by virtual host.
        self._trials: dict[str, Router[None]] = {}

    def plan(self) -> None:
        """Find out what is new and whether it fits what is there.

        Raises:
            DefinitionsInvalid: something refers to what does not exist.
        """
        names = self._vhost_names()
        for name, metadata in self._definitions.vhosts:
            self._statements += put_vhost(name, metadata)
        self._plan_rights(names)
        for vhost in names:
            self._note_existing(vhost)
        for vhost, exchange in self._definitions.exchanges:
            self._plan_exchange(vhost, exchange, names)
        for queue in self._definitions.queues:
            self._plan_queue(queue, names)
        for vhost, binding in self._definitions.bindings:
            self._plan_binding(vhost, binding, names)

    def commit(self) -> None:
        """Write it, then make it.

        Raises:
            CommitFailed: the disk would not take it; nothing has changed.
        """
        broker = self._broker
        row_ids: list[int] = []
        if self._statements:
            row_ids = broker.catalogue.commit_now(self._statements)
        for name, _ in self._definitions.vhosts:
            broker.add_vhost(name)
        for user in self._definitions.users:
            broker.users.put(user)
        for permission in self._definitions.permissions:
            broker.permissions.put(permission)
        for topic in self._definitions.topic_permissions:
            broker.permissions.put_topic(topic)
        for vhost, exchange in self._exchanges:
            insertion = self._waiting_rooms.get((vhost, exchange.name))
            room_id = 0 if insertion is None else row_ids[insertion]
            broker.vhosts[vhost].topology.add_exchange(exchange, room_id)
        for queue in self._queues:
            self._make_queue(queue, row_ids)
        for vhost, binding in self._bindings:
            broker.vhosts[vhost].router.bind(binding)

    # -- planning -------------------------------------------------------------

    def _vhost_names(self) -> set[str]:
        names = set(self._broker.vhosts)
        names.update(name for name, _ in self._definitions.vhosts)
        return names

    def _plan_rights(self, vhosts: set[str]) -> None:
        users = set(self._broker.users.names())
        for user in self._definitions.users:
            users.add(user.name)
            self._statements += put_user(
                user.name, user.password_hash, user.algorithm, user.tags
            )
        for rights in self._definitions.permissions:
            _check_there("user", rights.user, users)
            _check_there("vhost", rights.vhost, vhosts)
            self._statements += put_permission(
                rights.user,
                rights.vhost,
                rights.configure,
                rights.write,
                rights.read,
            )
        for topic in self._definitions.topic_permissions:
            _check_there("user", topic.user, users)
            _check_there("vhost", topic.vhost, vhosts)
            self._statements += put_topic_permission(
                topic.user, topic.vhost, topic.exchange, topic.write, topic.read
            )
        for parameter in self._definitions.parameters:
            self._statements += put_parameter(
                parameter.vhost, parameter.component, parameter.name, parameter.value
            )

    def _note_existing(self, vhost: str) -> None:
        self._trials[vhost] = Router()
        there = self._broker.vhosts.get(vhost)
        exchanges = predeclared() if there is None else there.exchanges.values()
        for exchange in exchanges:
            self._note_exchange(vhost, exchange)
        if there is not None:
            for queue in there.queues.values():
                self._note_queue(vhost, queue.name, queue.durable)

    def _note_exchange(self, vhost: str, exchange: Exchange) -> None:
        self._known_exchanges[(vhost, exchange.name)] = exchange.durable
        self._trials[vhost].add_exchange(
            exchange.name, exchange.type_name, None, exchange.arguments.table
        )

    def _note_queue(self, vhost: str, name: str, durable: bool) -> None:
        self._known_queues[(vhost, name)] = durable
        self._trials[vhost].add_destination(name, None)

    def _plan_exchange(self, vhost: str, exchange: Exchange, vhosts: set[str]) -> None:
        _check_there("vhost", vhost, vhosts)
        key = (vhost, exchange.name)
        if key in self._known_exchanges or not exchange.name:
            return
        if exchange.name.startswith(RESERVED_PREFIX):
            resource = exchange_resource(exchange.name, vhost)
            raise DefinitionsInvalid(f"{resource} has a reserved name")
        self._note_exchange(vhost, exchange)
        self._exchanges.append((vhost, exchange))
        if exchange.durable:
            self._waiting_rooms[key] = len(self._statements)
            self._statements += insert_exchange(vhost, exchange)

    def _plan_queue(self, queue: QueueDefinition, vhosts: set[str]) -> None:
        _check_there("vhost", queue.vhost, vhosts)
        key = (queue.vhost, queue.name)
        if key in self._known_queues:
            return
        properties = queue.properties
        self._note_queue(queue.vhost, queue.name, properties.durable)
        self._queues.append(queue)
        if properties.durable:
            self._insertions[key] = len(self._statements)
            self._statements += insert_queue(
                queue.vhost,
                queue.name,
                properties.auto_delete,
                properties.arguments.raw,
                priority_level_count(properties.arguments.table),
            )

    def _plan_binding(self, vhost: str, binding: Binding, vhosts: set[str]) -> None:
        _check_there("vhost", vhost, vhosts)
        if not binding.source:
            return
        try:
            is_new = self._trials[vhost].bind(binding)
        except RoutingError as error:
            raise DefinitionsInvalid(
                f"binding from '{binding.source}' to '{binding.destination}' in vhost "
                f"'{vhost}': {error}"
            ) from None
        there = self._broker.vhosts.get(vhost)
        if not is_new or (there is not None and there.router.has_binding(binding)):
            return
        self._bindings.append((vhost, binding))
        if self._is_durable(vhost, binding):
            self._statements += insert_binding(vhost, binding)

    def _is_durable(self, vhost: str, binding: Binding) -> bool:
        ends = self._known_exchanges if binding.to_exchange else self._known_queues
        source = self._known_exchanges[(vhost, binding.source)]
        return source and ends[(vhost, binding.destination)]

    # -- making ---------------------------------------------------------------

    def _make_queue(self, queue: QueueDefinition, row_ids: list[int]) -> None:
        properties = queue.properties
        topology = self._broker.vhosts[queue.vhost].topology
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


def _check_there(kind: str, name: str, names: set[str]) -> None:
    if name not in names:
        raise DefinitionsInvalid(f"there is no {kind} '{name}'")
