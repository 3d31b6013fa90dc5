"""The SQL of every change of the topology, as groups for the catalogue.

One function per change, so that a table's columns are named in two files only: here
and where the rows are read (`catalogue`). A removal takes along the rows that mean
nothing without what is removed; applying one twice changes nothing.
"""

import json
from typing import Final

from amqpd.broker.catalogue.catalogue import Statement
from amqpd.broker.exchange import Exchange
from routing.binding import Binding

INSERT_EXCHANGE: Final = "INSERT OR REPLACE INTO exchanges VALUES (?, ?, ?, ?, ?, ?, ?)"
INSERT_WAITING_ROOM: Final = (
    "INSERT OR REPLACE INTO exchanges VALUES (?, ?, ?, ?, ?, ?, last_insert_rowid())"
)
DELETE_EXCHANGE: Final = "DELETE FROM exchanges WHERE vhost = ? AND name = ?"
INSERT_QUEUE: Final = (
    "INSERT INTO queues (vhost, name, auto_delete, level_count, arguments) "
    "VALUES (?, ?, ?, ?, ?)"
)
# An id of a queue that is no queue: this row, whose name nobody has, goes at once.
TAKE_ID: Final = "INSERT INTO queues VALUES (NULL, '', '', 0, 1, x'')"
END_TAKING: Final = "DELETE FROM queues WHERE vhost = '' AND name = ''"
# The ids that follow the one just given out are taken too.
RESERVE_IDS: Final = "UPDATE sqlite_sequence SET seq = seq + ? WHERE name = 'queues'"
DELETE_QUEUE: Final = "DELETE FROM queues WHERE id = ?"
INSERT_BINDING: Final = "INSERT OR IGNORE INTO bindings VALUES (?, ?, ?, ?, ?, ?)"
DELETE_BINDING: Final = (
    "DELETE FROM bindings WHERE vhost = ? AND source = ? AND destination = ? "
    "AND to_exchange = ? AND routing_key = ? AND arguments = ?"
)
DELETE_BINDINGS_FROM: Final = "DELETE FROM bindings WHERE vhost = ? AND source = ?"
DELETE_BINDINGS_TO: Final = (
    "DELETE FROM bindings WHERE vhost = ? AND destination = ? AND to_exchange = ?"
)
PUT_VHOST: Final = (
    "INSERT INTO vhosts VALUES (?, ?) "
    "ON CONFLICT (name) DO UPDATE SET metadata = excluded.metadata"
)
PUT_USER: Final = "INSERT OR REPLACE INTO users VALUES (?, ?, ?, ?)"
PUT_PERMISSION: Final = "INSERT OR REPLACE INTO permissions VALUES (?, ?, ?, ?, ?)"
PUT_TOPIC_PERMISSION: Final = (
    "INSERT OR REPLACE INTO topic_permissions VALUES (?, ?, ?, ?, ?)"
)
DELETE_USER: Final = (
    "DELETE FROM users WHERE name = ?",
    "DELETE FROM permissions WHERE user = ?",
    "DELETE FROM topic_permissions WHERE user = ?",
    "DELETE FROM parameters WHERE component = 'user-limits' AND name = ?",
)
DELETE_VHOST: Final = (
    "DELETE FROM vhosts WHERE name = ?",
    "DELETE FROM permissions WHERE vhost = ?",
    "DELETE FROM topic_permissions WHERE vhost = ?",
    "DELETE FROM parameters WHERE vhost = ?",
    "DELETE FROM exchanges WHERE vhost = ?",
    "DELETE FROM queues WHERE vhost = ?",
    "DELETE FROM bindings WHERE vhost = ?",
)
DELETE_PERMISSION: Final = "DELETE FROM permissions WHERE user = ? AND vhost = ?"
DELETE_TOPIC_PERMISSION: Final = (
    "DELETE FROM topic_permissions WHERE user = ? AND vhost = ? AND exchange = ?"
)
PUT_PARAMETER: Final = "INSERT OR REPLACE INTO parameters VALUES (?, ?, ?, ?)"
DELETE_PARAMETER: Final = (
    "DELETE FROM parameters WHERE vhost = ? AND component = ? AND name = ?"
)


def insert_exchange(vhost: str, exchange: Exchange) -> list[Statement]:
    """A durable exchange is declared.

    If messages wait at it, the row id of the first insertion is its id in the log.
    """
    values = (
        vhost,
        exchange.name,
        exchange.type_name,
        int(exchange.auto_delete),
        int(exchange.internal),
        exchange.arguments.raw,
    )
    if not exchange.is_delayed:
        return [(INSERT_EXCHANGE, (*values, 0))]
    return [(TAKE_ID, ()), (INSERT_WAITING_ROOM, values), (END_TAKING, ())]


def delete_exchange(vhost: str, name: str) -> list[Statement]:
    """An exchange goes, with all bindings from it and to it."""
    return [
        (DELETE_EXCHANGE, (vhost, name)),
        (DELETE_BINDINGS_FROM, (vhost, name)),
        (DELETE_BINDINGS_TO, (vhost, name, 1)),
    ]


def insert_queue(
    vhost: str, name: str, auto_delete: bool, arguments: bytes, level_count: int = 1
) -> list[Statement]:
    """A durable queue is declared; the row id of the insertion is its id.

    With more than one level the next ids belong to the further ones.
    """
    values = (vhost, name, int(auto_delete), level_count, arguments)
    statements: list[Statement] = [(INSERT_QUEUE, values)]
    if level_count > 1:
        statements.append((RESERVE_IDS, (level_count - 1,)))
    return statements


def delete_queue(vhost: str, queue_id: int, name: str) -> list[Statement]:
    """A durable queue goes, with all bindings to it."""
    return [
        (DELETE_QUEUE, (queue_id,)),
        (DELETE_BINDINGS_TO, (vhost, name, 0)),
    ]


def insert_binding(vhost: str, binding: Binding) -> list[Statement]:
    """Something durable is bound to a durable exchange."""
    return [(INSERT_BINDING, _binding_values(vhost, binding))]


def delete_binding(vhost: str, binding: Binding) -> list[Statement]:
    """A binding goes."""
    return [(DELETE_BINDING, _binding_values(vhost, binding))]


def put_vhost(name: str, metadata: object) -> list[Statement]:
    """A virtual host exists; what is known of it besides its name is kept as JSON."""
    return [(PUT_VHOST, (name, json.dumps(metadata)))]


def put_user(
    name: str, password_hash: str, algorithm: str, tags: tuple[str, ...]
) -> list[Statement]:
    """A user exists, or changes."""
    return [(PUT_USER, (name, password_hash, algorithm, json.dumps(list(tags))))]


def delete_vhost(name: str) -> list[Statement]:
    """A virtual host goes, with everything that is in it and all rights in it."""
    return [(statement, (name,)) for statement in DELETE_VHOST]


def delete_user(name: str) -> list[Statement]:
    """A user goes, with all rights."""
    return [(statement, (name,)) for statement in DELETE_USER]


def delete_permission(user: str, vhost: str) -> list[Statement]:
    """A user loses the rights in a virtual host."""
    return [(DELETE_PERMISSION, (user, vhost))]


def delete_topic_permission(user: str, vhost: str, exchange: str) -> list[Statement]:
    """A user may use all routing keys of an exchange again."""
    return [(DELETE_TOPIC_PERMISSION, (user, vhost, exchange))]


def put_permission(
    user: str, vhost: str, configure: str, write: str, read: str
) -> list[Statement]:
    """A user gets rights in a virtual host."""
    return [(PUT_PERMISSION, (user, vhost, configure, write, read))]


def put_topic_permission(
    user: str, vhost: str, exchange: str, write: str, read: str
) -> list[Statement]:
    """A user gets rights on the routing keys of an exchange."""
    return [(PUT_TOPIC_PERMISSION, (user, vhost, exchange, write, read))]


def put_parameter(
    vhost: str, component: str, name: str, value: object
) -> list[Statement]:
    """A runtime parameter or a policy, kept as it came."""
    return [(PUT_PARAMETER, (vhost, component, name, json.dumps(value)))]


def delete_parameter(vhost: str, component: str, name: str) -> list[Statement]:
    """A runtime parameter or a policy is cleared."""
    return [(DELETE_PARAMETER, (vhost, component, name))]


def _binding_values(vhost: str, binding: Binding) -> tuple[object, ...]:
    return (
        vhost,
        binding.source,
        binding.destination,
        int(binding.to_exchange),
        binding.key,
        binding.raw_arguments,
    )
