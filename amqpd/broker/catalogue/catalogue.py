"""What the metadata store remembers of the topology: tables, rows, and commits.

    users, vhosts, permissions, topic_permissions, parameters     who may do what
    exchanges, queues, bindings          the durable ones; arguments as on the wire

A change is a group of statements that happens wholly or not at all. It is left here
with whoever waits for it, and reaches the disk with all that came in the same turn:

    catalogue.stage([...], waiter)          the waiter's channel is held
    step = catalogue.begin(); step.run()    run() blocks, on whatever thread
    catalogue.complete(step)                waiter.on_committed() or on_commit_failed()

A removal that nobody waits for (the queue of a connection that has ended is gone from
memory already) is an *errand*: it is repeated until it succeeds. Queue ids come from
SQLite's AUTOINCREMENT, because an id must never come again (STORE.md, section 5); a
queue with priorities has a row of ids, one for each level, and an exchange at which
messages wait for their time has one, too.
This module knows neither the objects in memory nor what makes a change valid.
"""

import json
from collections.abc import Sequence
from typing import Final, cast, final

from mypy_extensions import trait

from amqpd.broker.policies.parameters import Parameter
from store.metadata import Metadata, MetadataStep

SCHEMA_VERSION: Final = 3

SCHEMA: Final = [
    """CREATE TABLE users (name TEXT PRIMARY KEY, password_hash TEXT NOT NULL,
        algorithm TEXT NOT NULL, tags TEXT NOT NULL)""",
    """CREATE TABLE vhosts (name TEXT PRIMARY KEY, metadata TEXT NOT NULL)""",
    """CREATE TABLE permissions (user TEXT NOT NULL, vhost TEXT NOT NULL,
        configure TEXT NOT NULL, write TEXT NOT NULL, read TEXT NOT NULL,
        PRIMARY KEY (user, vhost))""",
    """CREATE TABLE topic_permissions (user TEXT NOT NULL, vhost TEXT NOT NULL,
        exchange TEXT NOT NULL, write TEXT NOT NULL, read TEXT NOT NULL,
        PRIMARY KEY (user, vhost, exchange))""",
    """CREATE TABLE parameters (vhost TEXT NOT NULL, component TEXT NOT NULL,
        name TEXT NOT NULL, value TEXT NOT NULL,
        PRIMARY KEY (vhost, component, name))""",
    """CREATE TABLE exchanges (vhost TEXT NOT NULL, name TEXT NOT NULL,
        type TEXT NOT NULL, auto_delete INTEGER NOT NULL, internal INTEGER NOT NULL,
        arguments BLOB NOT NULL, waiting_room_id INTEGER NOT NULL,
        PRIMARY KEY (vhost, name))""",
    """CREATE TABLE queues (id INTEGER PRIMARY KEY AUTOINCREMENT,
        vhost TEXT NOT NULL, name TEXT NOT NULL, auto_delete INTEGER NOT NULL,
        level_count INTEGER NOT NULL, arguments BLOB NOT NULL,
        UNIQUE (vhost, name))""",
    """CREATE TABLE bindings (vhost TEXT NOT NULL, source TEXT NOT NULL,
        destination TEXT NOT NULL, to_exchange INTEGER NOT NULL,
        routing_key BLOB NOT NULL, arguments BLOB NOT NULL,
        PRIMARY KEY (vhost, source, destination, to_exchange, routing_key, arguments))
        WITHOUT ROWID""",
    """CREATE INDEX bindings_by_destination
        ON bindings (vhost, destination, to_exchange)""",
]

Statement = tuple[str, Sequence[object]]


@trait
class CommitWaiter:
    """Who is told what became of a group of statements."""

    def on_committed(self, row_ids: list[int]) -> None:
        """They are durable; each insertion has a row id, in the order of statements."""
        raise NotImplementedError

    def on_commit_failed(self, error: Exception) -> None:
        """The disk would not take them: nothing of the group has happened."""
        raise NotImplementedError


@final
class ExchangeRow:
    """A durable exchange."""

    def __init__(self, row: tuple[str, str, str, int, int, bytes, int]) -> None:
        self.vhost, self.name, self.type_name = row[0], row[1], row[2]
        self.auto_delete, self.internal = bool(row[3]), bool(row[4])
        self.arguments = row[5]
        # The id in the log of what waits there; 0 if nothing ever does.
        self.waiting_room_id = row[6]


@final
class QueueRow:
    """A durable queue."""

    def __init__(self, row: tuple[int, str, str, int, int, bytes]) -> None:
        self.id, self.vhost, self.name = row[0], row[1], row[2]
        self.auto_delete = bool(row[3])
        # It has so many ids in the log, from `id` on: one for each priority level.
        self.level_count = row[4]
        self.arguments = row[5]

    def ids(self) -> range:
        """Its ids in the log; the first is that of the lowest level."""
        return range(self.id, self.id + self.level_count)


def waiting_room_name(exchange_name: str) -> str:
    """What is to be called a queue where messages wait for their time."""
    return f"delayed messages of exchange '{exchange_name}'"


@final
class BindingRow:
    """A binding between a durable exchange and something durable."""

    def __init__(self, row: tuple[str, str, str, int, bytes, bytes]) -> None:
        self.vhost, self.source, self.destination = row[0], row[1], row[2]
        self.to_exchange = bool(row[3])
        self.routing_key, self.arguments = row[4], row[5]


@final
class UserRow:
    """A user."""

    def __init__(self, row: tuple[str, str, str, str]) -> None:
        self.name, self.password_hash, self.algorithm = row[0], row[1], row[2]
        self.tags = tuple(str(tag) for tag in json.loads(row[3]))


@final
class PermissionRow:
    """The rights of a user in a virtual host."""

    def __init__(self, row: tuple[str, str, str, str, str]) -> None:
        self.user, self.vhost = row[0], row[1]
        self.configure, self.write, self.read = row[2], row[3], row[4]


@final
class TopicPermissionRow:
    """The routing keys that a user may use on an exchange."""

    def __init__(self, row: tuple[str, str, str, str, str]) -> None:
        self.user, self.vhost, self.exchange = row[0], row[1], row[2]
        self.write, self.read = row[3], row[4]


@final
class Catalogue:
    """The rows of the metadata store, and the changes on their way to it."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        # Removals that the disk refused: they go first the next time.
        self._owed: list[Statement] = []

    # -- reading, at start ----------------------------------------------------

    def users(self) -> list[UserRow]:
        """All users."""
        rows = self._metadata.query(
            "SELECT name, password_hash, algorithm, tags FROM users"
        )
        return [UserRow(cast(tuple[str, str, str, str], row)) for row in rows]

    def vhosts(self) -> list[str]:
        """The names of all virtual hosts."""
        rows = self._metadata.query("SELECT name FROM vhosts ORDER BY name")
        return [str(row[0]) for row in rows]

    def vhost_metadata(self) -> dict[str, dict[str, object]]:
        """What is known of the virtual hosts, by name."""
        rows = self._metadata.query("SELECT name, metadata FROM vhosts")
        return {str(name): _object(str(metadata)) for name, metadata in rows}

    def parameters(self) -> list[Parameter]:
        """All parameters, policies and limits."""
        rows = self._metadata.query(
            "SELECT vhost, component, name, value FROM parameters"
        )
        return [
            Parameter(str(row[0]), str(row[1]), str(row[2]), json.loads(str(row[3])))
            for row in rows
        ]

    def permissions(self) -> list[PermissionRow]:
        """All permissions."""
        rows = self._metadata.query(
            "SELECT user, vhost, configure, write, read FROM permissions"
        )
        return [
            PermissionRow(cast(tuple[str, str, str, str, str], row)) for row in rows
        ]

    def topic_permissions(self) -> list[TopicPermissionRow]:
        """All topic permissions."""
        rows = self._metadata.query(
            "SELECT user, vhost, exchange, write, read FROM topic_permissions"
        )
        return [
            TopicPermissionRow(cast(tuple[str, str, str, str, str], row))
            for row in rows
        ]

    def exchanges(self) -> list[ExchangeRow]:
        """All durable exchanges but the predeclared ones."""
        rows = self._metadata.query(
            "SELECT vhost, name, type, auto_delete, internal, arguments, "
            "waiting_room_id FROM exchanges"
        )
        return [
            ExchangeRow(cast(tuple[str, str, str, int, int, bytes, int], row))
            for row in rows
        ]

    def queues(self) -> list[QueueRow]:
        """All durable queues, in the order in which they were declared."""
        rows = self._metadata.query(
            "SELECT id, vhost, name, auto_delete, level_count, arguments "
            "FROM queues ORDER BY id"
        )
        return [
            QueueRow(cast(tuple[int, str, str, int, int, bytes], row)) for row in rows
        ]

    def waiting_rooms(self) -> list[QueueRow]:
        """What the log takes for queues: where messages wait, at durable exchanges."""
        return [
            QueueRow(
                (
                    exchange.waiting_room_id,
                    exchange.vhost,
                    waiting_room_name(exchange.name),
                    0,
                    1,
                    b"",
                )
            )
            for exchange in self.exchanges()
            if exchange.waiting_room_id
        ]

    def bindings(self) -> list[BindingRow]:
        """All durable bindings."""
        rows = self._metadata.query(
            "SELECT vhost, source, destination, to_exchange, routing_key, arguments "
            "FROM bindings"
        )
        return [
            BindingRow(cast(tuple[str, str, str, int, bytes, bytes], row))
            for row in rows
        ]

    def known_queue_ids(self) -> set[int]:
        """The ids of all durable queues: what recovery may find messages of.

        Where messages wait for their time is a queue, too, to the log.
        """
        rows = self.queues() + self.waiting_rooms()
        return {queue_id for row in rows for queue_id in row.ids()}

    def highest_queue_id(self) -> int:
        """The highest id that was ever given out, 0 when none was."""
        rows = self._metadata.query(
            "SELECT seq FROM sqlite_sequence WHERE name = 'queues'"
        )
        return cast(int, rows[0][0]) if rows else 0

    # -- writing --------------------------------------------------------------

    def stage(self, statements: list[Statement], waiter: CommitWaiter) -> None:
        """Leave one atomic change; the waiter is told when it has happened or not."""
        self._stage_owed()
        self._metadata.stage(statements, waiter)

    def stage_errand(self, statements: list[Statement]) -> None:
        """Leave removals that must happen some time; nobody waits for them."""
        if statements:
            self._owed.extend(statements)
            self._stage_owed()

    def _stage_owed(self) -> None:
        if self._owed:
            errand = Errand(self, self._owed)
            self._owed = []
            self._metadata.stage(errand.statements, errand)

    def owe(self, statements: list[Statement]) -> None:
        """Removals failed: they go again before the next change."""
        self._owed = statements + self._owed

    @property
    def has_work(self) -> bool:
        """Whether something waits to be committed."""
        return self._metadata.has_work

    def begin(self) -> MetadataStep | None:
        """Take what waits into one step, unless one is on its way."""
        return self._metadata.begin()

    def complete(self, step: MetadataStep) -> None:
        """Tell those who waited for the step what became of it."""
        for result in self._metadata.complete(step):
            waiter = result.token
            assert isinstance(waiter, CommitWaiter)
            if result.error is None:
                waiter.on_committed(result.row_ids)
            else:
                waiter.on_commit_failed(result.error)

    def commit_now(self, statements: list[Statement]) -> list[int]:
        """Commit a change and return its row ids; blocks.

        Only at start, when nothing else is on its way.

        Raises:
            CommitFailed: the disk would not take it.
        """
        outcome = _Outcome()
        self.stage(statements, outcome)
        step = self.begin()
        assert step is not None
        step.run()
        self.complete(step)
        if outcome.error is not None:
            raise CommitFailed(str(outcome.error))
        return outcome.row_ids

    def close(self) -> None:
        """Close the metadata store."""
        self._metadata.close()


@final
class Errand(CommitWaiter):
    """Removals that nobody waits for."""

    def __init__(self, catalogue: Catalogue, statements: list[Statement]) -> None:
        self.statements = statements
        self._catalogue = catalogue

    def on_committed(self, row_ids: list[int]) -> None:
        """Nothing is left to do."""

    def on_commit_failed(self, error: Exception) -> None:
        """Try again with the next change."""
        self._catalogue.owe(self.statements)


def _object(text: str) -> dict[str, object]:
    value = json.loads(text)
    return cast(dict[str, object], value) if isinstance(value, dict) else {}


class CommitFailed(Exception):
    """A change at start could not be made durable."""


@final
class _Outcome(CommitWaiter):
    """Remembers what became of a commit at start."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.row_ids: list[int] = []

    def on_committed(self, row_ids: list[int]) -> None:
        """Keep the ids."""
        self.row_ids = row_ids

    def on_commit_failed(self, error: Exception) -> None:
        """Keep the reason."""
        self.error = error
