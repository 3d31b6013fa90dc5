"""The small relational facts, in SQLite: who owns which queue id, and so on.

Writes come in groups, each all or nothing. Groups staged in one turn share one
transaction, hence one fsync; each is a savepoint in it, so that one that breaks a
constraint fails alone. Like a sync of the log this is a step:

    stage(statements, token)   on the loop
    step = begin()             on the loop
    step.run()                 elsewhere: the transaction
    results = complete(step)   on the loop: durable now, or refused

SQLite opens its own files (WAL, synchronous=FULL). The tables are the caller's;
this module adds one, which holds the store's UUID.
"""

import os
import sqlite3
import uuid
from collections.abc import Sequence
from typing import Final

from store.errors import MetadataDamaged, MetadataError, repair_hint
from store.filesystem import FileSystem
from store.segment import is_any_segment

Statement = tuple[str, Sequence[object]]

_STORE_TABLE: Final = "CREATE TABLE store (uuid BLOB NOT NULL)"


class MetadataGroup:
    """Statements that take effect together, and who asked for them."""

    def __init__(self, statements: list[Statement], token: object) -> None:
        self.statements = statements
        self.token = token
        self.row_ids: list[int] = []
        self.error: Exception | None = None


class MetadataResult:
    """What came of a group: durable, or `error` says why not.

    `row_ids` has the last inserted row id for each statement.
    """

    def __init__(self, group: MetadataGroup) -> None:
        self.token = group.token
        self.row_ids = group.row_ids
        self.error = group.error


class MetadataStep:
    """One transaction."""

    def __init__(
        self, connection: sqlite3.Connection, groups: list[MetadataGroup]
    ) -> None:
        self._connection = connection
        self.groups = groups

    def run(self) -> None:
        """Commit the groups; what fails is kept in each of them. Raises nothing."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for group in self.groups:
                self._apply(group)
            self._connection.execute("COMMIT")
        except Exception as exc:  # noqa: BLE001 - complete() tells, on the loop
            for group in self.groups:
                group.error = group.error or MetadataError(f"cannot commit: {exc}")
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _apply(self, group: MetadataGroup) -> None:
        self._connection.execute("SAVEPOINT one_group")
        try:
            for text, parameters in group.statements:
                cursor = self._connection.execute(text, parameters)
                group.row_ids.append(cursor.lastrowid or 0)
        except (sqlite3.Error, ValueError, OverflowError) as exc:
            # Also a value that no column can have: text that is no Unicode.
            if not self._connection.in_transaction:
                # A full disk ends the whole transaction, other groups included.
                raise
            group.error = MetadataError(f"cannot execute {text!r}: {exc}")
            group.row_ids = []
            self._connection.execute("ROLLBACK TO one_group")
        self._connection.execute("RELEASE one_group")


class Metadata:
    """The open database."""

    def __init__(self, connection: sqlite3.Connection, store_uuid: bytes) -> None:
        self._connection = connection
        self._staged: list[MetadataGroup] = []
        self.store_uuid = store_uuid

    @staticmethod
    def open(
        path: str, schema: list[str], schema_version: int, filesystem: FileSystem
    ) -> "Metadata":
        """Open the database, making it (and the store's UUID) if it is missing.

        Raises:
            MetadataError: it is damaged, of another version, or missing although
                there is a log, which would be garbage without it.
        """
        directory = os.path.dirname(path)
        is_new = not filesystem.exists(path)
        if is_new and is_any_segment(filesystem.list_directory(f"{directory}/log")):
            raise MetadataDamaged(
                f"{path} is missing, but there is a log; {repair_hint(directory)}"
            )
        connection = _connect(path)
        try:
            store_uuid = _prepare(connection, path, schema, schema_version)
            if is_new:
                filesystem.sync_directory(directory)
        except (sqlite3.Error, OSError) as exc:
            connection.close()
            text = f"cannot use {path}: {exc}"
            # An operational error is the world's: the disk, or another process.
            if isinstance(exc, OSError | sqlite3.OperationalError):
                raise MetadataError(text) from exc
            raise MetadataDamaged(f"{text}; {repair_hint(directory)}") from exc
        except MetadataError:
            connection.close()
            raise
        return Metadata(connection, store_uuid)

    def query(
        self, sql: str, parameters: Sequence[object] = ()
    ) -> list[tuple[object, ...]]:
        """Return all rows; blocks, for the start only."""
        return self._connection.execute(sql, parameters).fetchall()

    def stage(self, statements: list[Statement], token: object) -> None:
        """Add a group to the next transaction."""
        self._staged.append(MetadataGroup(statements, token))

    @property
    def has_work(self) -> bool:
        """Say whether a group is staged."""
        return bool(self._staged)

    def begin(self) -> MetadataStep | None:
        """Return the step for everything staged, None if there is nothing."""
        if not self._staged:
            return None
        step = MetadataStep(self._connection, self._staged)
        self._staged = []
        return step

    def complete(self, step: MetadataStep) -> list[MetadataResult]:
        """Return what came of a step that has run, in the order of staging."""
        return [MetadataResult(group) for group in step.groups]

    def close(self) -> None:
        """Close the database; nothing may be in flight."""
        self._connection.close()


def _connect(path: str) -> sqlite3.Connection:
    try:
        return sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as exc:
        raise MetadataError(f"cannot open {path}: {exc}") from exc


def _prepare(
    connection: sqlite3.Connection, path: str, schema: list[str], version: int
) -> bytes:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    is_empty = connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None
    if found == 0 and is_empty:
        return _create(connection, schema, version)
    if found != version:
        raise MetadataError(
            f"{path} has schema version {found}, this program reads {version}"
        )
    for (problem,) in connection.execute("PRAGMA quick_check"):
        if problem != "ok":
            raise MetadataDamaged(
                f"{path} is damaged: {problem}; {repair_hint(os.path.dirname(path))}"
            )
    row = connection.execute("SELECT uuid FROM store").fetchone()
    if row is None or not isinstance(row[0], bytes):
        raise MetadataDamaged(
            f"{path} has lost the store's UUID; {repair_hint(os.path.dirname(path))}"
        )
    return row[0]


def _create(connection: sqlite3.Connection, schema: list[str], version: int) -> bytes:
    store_uuid = uuid.uuid4().bytes
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(_STORE_TABLE)
    connection.execute("INSERT INTO store VALUES (?)", (store_uuid,))
    for statement in schema:
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {version:d}")
    connection.execute("COMMIT")
    return store_uuid
