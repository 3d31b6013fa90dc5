"""Topology without connections: sessions, operations, and what becomes of them.

    plane = ControlPlane(tmp_path)
    outcome = plane.declare_queue(plane.guest(), "jobs", durable=True)
    outcome.is_done                     False: its commit has not been run
    plane.commit()
    outcome.queue.name                  or outcome.refusal: "404 no queue ..."

The broker is a real one on a real directory. Nothing is committed before `commit`;
`begin_commit` and `complete_commit` are its halves, for what happens in between.
`break_disk` makes the metadata store refuse changes of a table.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from amqpd.auth.permissions import Permission
from amqpd.auth.users import User
from amqpd.broker.arguments import Arguments
from amqpd.broker.broker import Broker
from amqpd.broker.errors import AmqpError
from amqpd.broker.exchange import Exchange
from amqpd.broker.policies.parameters import POLICY, Parameter
from amqpd.broker.ports import Step
from amqpd.broker.queues.queue import Queue
from amqpd.broker.vhosts.queue_changes import QueueProperties
from amqpd.broker.vhosts.session import Session
from amqpd.broker.vhosts.vhost import VirtualHost
from amqpd.wire.tables import Table, encode_table
from tests.support.connection_pair import Bench


def arguments(table: Table | None = None, raw: bytes | None = None) -> Arguments:
    """Arguments as a client would send them; `raw` when the types matter."""
    table = table or {}
    return Arguments(table, encode_table(table) if raw is None else raw)


class Outcome:
    """What an operation came to."""

    def __init__(self) -> None:
        self._values: list[object] = []

    def __call__(self, value: object) -> None:
        """The operation is over."""
        self._values.append(value)

    @property
    def is_done(self) -> bool:
        """Whether the operation is over."""
        return bool(self._values)

    @property
    def value(self) -> object:
        """The result; it must be the only one."""
        (value,) = self._values
        assert not isinstance(value, AmqpError), value
        return value

    @property
    def queue(self) -> Queue:
        """The queue that was declared."""
        value = self.value
        assert isinstance(value, Queue)
        return value

    @property
    def refusal(self) -> str:
        """Code and text of the error."""
        (value,) = self._values
        assert isinstance(value, AmqpError), value
        return f"{value.reply_code} {value.text}"

    @property
    def told(self) -> str:
        """The result or the error, in a form that can be compared."""
        (value,) = self._values
        if isinstance(value, AmqpError):
            return self.refusal
        return value.name if isinstance(value, Queue) else str(value)


class ControlPlane:
    """A broker, and operations on its virtual host `/` unless a session says else."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.bench = Bench(directory)

    @property
    def broker(self) -> Broker:
        """The broker."""
        return self.bench.broker

    @property
    def vhost(self) -> VirtualHost:
        """The virtual host `/`."""
        return self.broker.vhosts["/"]

    def reopen(self) -> None:
        """Stop cleanly and start again."""
        self.bench.close()
        self.bench = Bench(self._directory)

    def guest(self) -> Session:
        """A new connection of a user who may do everything."""
        return self._session("guest")

    def user(self, configure: str, write: str, read: str) -> Session:
        """A new connection of the user `joe` with these rights."""
        self.broker.users.put(User("joe", ""))
        self.broker.permissions.put(Permission("joe", "/", configure, write, read))
        return self._session("joe")

    def _session(self, name: str) -> Session:
        user = self.broker.users.get(name)
        assert user is not None
        return self.broker.open_vhost(user, "/", object())

    # -- the disk -------------------------------------------------------------

    def commit(self) -> None:
        """Commit all that waits, and what comes of it."""
        while self.broker.metadata_has_work():
            self.bench.commit()

    def begin_commit(self) -> Step:
        """Take what waits."""
        step = self.broker.begin_metadata()
        assert step is not None
        return step

    def complete_commit(self, step: Step) -> None:
        """Run it, and tell those who wait."""
        step.run()
        self.broker.complete_metadata(step)

    def break_disk(self, table: str) -> None:
        """Refuse every change of a table, until `mend_disk`."""
        for what in ("INSERT", "DELETE"):
            self._execute(
                f"CREATE TRIGGER refuse_{what}_{table} BEFORE {what} ON {table} "
                "BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
            )

    def mend_disk(self, table: str) -> None:
        """Allow changes again."""
        for what in ("INSERT", "DELETE"):
            self._execute(f"DROP TRIGGER refuse_{what}_{table}")

    def rows(self, table: str) -> list[tuple[object, ...]]:
        """What the disk has."""
        return self._execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3")

    def _execute(self, statement: str) -> list[tuple[object, ...]]:
        connection = sqlite3.connect(self._directory / "meta.db")
        try:
            with connection:
                return connection.execute(statement).fetchall()
        finally:
            connection.close()

    # -- operations -----------------------------------------------------------

    def declare_queue(
        self,
        session: Session,
        name: str,
        *,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        table: Table | None = None,
    ) -> Outcome:
        """queue.declare."""
        outcome = Outcome()
        properties = QueueProperties(durable, exclusive, auto_delete, arguments(table))
        session.vhost.declare_queue(session, name, properties, outcome)
        return outcome

    def check_queue(self, session: Session, name: str) -> Outcome:
        """queue.declare, passive."""
        outcome = Outcome()
        session.vhost.check_queue(session, name, outcome)
        return outcome

    def delete_queue(
        self,
        session: Session,
        name: str,
        *,
        if_unused: bool = False,
        if_empty: bool = False,
    ) -> Outcome:
        """queue.delete."""
        outcome = Outcome()
        session.vhost.delete_queue(session, name, if_unused, if_empty, outcome)
        return outcome

    def declare_exchange(
        self,
        session: Session,
        name: str,
        type_name: str = "direct",
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        table: Table | None = None,
    ) -> Outcome:
        """exchange.declare."""
        outcome = Outcome()
        exchange = Exchange(
            name, type_name, durable, auto_delete, internal, arguments(table)
        )
        session.vhost.declare_exchange(session, exchange, outcome)
        return outcome

    def check_exchange(self, session: Session, name: str) -> Outcome:
        """exchange.declare, passive."""
        outcome = Outcome()
        session.vhost.check_exchange(name, outcome)
        return outcome

    def delete_exchange(
        self, session: Session, name: str, *, if_unused: bool = False
    ) -> Outcome:
        """exchange.delete."""
        outcome = Outcome()
        session.vhost.delete_exchange(session, name, if_unused, outcome)
        return outcome

    def bind(
        self,
        session: Session,
        source: str,
        destination: str,
        key: bytes = b"k",
        *,
        to_exchange: bool = False,
        table: Table | None = None,
    ) -> Outcome:
        """queue.bind and exchange.bind."""
        outcome = Outcome()
        session.vhost.bind(
            session, source, destination, to_exchange, key, arguments(table), outcome
        )
        return outcome

    def unbind(
        self,
        session: Session,
        source: str,
        destination: str,
        key: bytes = b"k",
        *,
        to_exchange: bool = False,
        table: Table | None = None,
    ) -> Outcome:
        """queue.unbind and exchange.unbind."""
        outcome = Outcome()
        session.vhost.unbind(
            session, source, destination, to_exchange, key, arguments(table), outcome
        )
        return outcome

    def put(
        self, component: str, name: str, value: object, vhost: str = "/"
    ) -> Outcome:
        """Set a parameter, a policy or limits."""
        outcome = Outcome()
        parameter = Parameter(vhost, component, name, value)
        self.broker.changes.put(parameter, outcome)
        return outcome

    def put_policy(self, name: str, definition: Table, **fields: object) -> None:
        """Set a policy for everything, and commit it."""
        value = {"pattern": "", "definition": definition, **fields}
        self.put(POLICY, name, value)
        self.commit()

    def remove(self, component: str, name: str, vhost: str = "/") -> Outcome:
        """Clear a parameter, a policy or limits."""
        outcome = Outcome()
        self.broker.changes.remove(vhost, component, name, outcome)
        return outcome

    def bindings(self) -> set[tuple[str, str, bytes]]:
        """What is bound to what in `/`: source, destination, key."""
        return {
            (binding.source, binding.destination, binding.key)
            for binding in self.vhost.router.bindings()
        }
