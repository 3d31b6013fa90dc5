"""What a run declares, and what of it is deleted when it is over.

    exchange   one of the type asked for, bound to every queue; its name is made up,
               so it is ours
    queues     made up too, and ours; or named with --queue: those that are there are
               used as they are and stay, the others are ours

Ours is what was not there before. It is deleted (with --keep, the exchange alone) over
a connection of its own: the one that declared it may be the one that was lost.
"""

from __future__ import annotations

from typing import Final

from pamqp import commands
from pamqp.common import FieldTable

from amqpd.bench.connection import Connection
from amqpd.bench.errors import BenchError, CallRefused, Refused
from amqpd.bench.options import Options

_NOT_FOUND: Final = 404
#: The header that a headers exchange looks at.
HEADER: Final = "queue"


class Topology:
    """The exchange and the queues of one run."""

    def __init__(self, options: Options, token: str) -> None:
        self._options = options
        self.exchange = f"amqpd-bench-{token}"
        self.queues = _queue_names(options, token)
        #: Queues that were there before, with what was in them.
        self.found: dict[str, int] = {}
        self._own_queues: list[str] = []
        self._own_exchange = False

    def declare(self, connection: Connection) -> None:
        """Make everything that is not there yet.

        Raises:
            Refused: the broker does not want that.
            RunFailed: the connection is lost.
        """
        options = self._options
        try:
            if options.producers:
                self._own_exchange = True
                declare = commands.Exchange.Declare(
                    0, self.exchange, options.exchange, durable=True
                )
                connection.call(declare, commands.Exchange.DeclareOk)
            for queue in self.queues:
                self._declare_queue(connection, queue)
                if options.producers:
                    bind = commands.Queue.Bind(
                        0, queue, self.exchange, queue, arguments=self._binding(queue)
                    )
                    connection.call(bind, commands.Queue.BindOk)
        except CallRefused as refused:
            raise Refused(str(refused)) from refused

    def ready(self, connection: Connection, queues: list[str]) -> int:
        """Return how many messages wait in those queues.

        Raises:
            BenchError: the broker does not say.
        """
        return sum(_count(connection, queue) or 0 for queue in queues)

    def delete(self) -> list[str]:
        """Delete what is ours; return what could not be, with the reason."""
        if self._options.keep:
            self._own_queues.clear()
        if not self._own_exchange and not self._own_queues:
            return []
        try:
            connection = Connection(self._options.target, "amqpd bench: cleaning up")
        except BenchError as error:
            names = ", ".join(self._own_names())
            return [f"{names}: still there, {error}"]
        try:
            return self._delete_over(connection)
        finally:
            connection.close()

    def headers(self, queue: str) -> dict[str, object]:
        """Return the headers of messages that shall go to that queue."""
        return {HEADER: queue} if self._options.exchange == "headers" else {}

    def _declare_queue(self, connection: Connection, queue: str) -> None:
        options = self._options
        if options.queue is not None:
            count = _count(connection, queue)
            if count is not None:
                self.found[queue] = count
                return
        arguments: FieldTable = dict(options.queue_arguments)  # type: ignore[arg-type]
        if options.queue_type is not None:
            arguments["x-queue-type"] = options.queue_type
        # Noted first: whoever is interrupted now has to clean up.
        self._own_queues.append(queue)
        declare = commands.Queue.Declare(0, queue, durable=True, arguments=arguments)
        connection.call(declare, commands.Queue.DeclareOk)

    def _binding(self, queue: str) -> FieldTable:
        if self._options.exchange != "headers":
            return {}
        return {"x-match": "all", HEADER: queue}

    def _own_names(self) -> list[str]:
        names = [f"queue {name}" for name in self._own_queues]
        return [*names, f"exchange {self.exchange}"] if self._own_exchange else names

    def _delete_over(self, connection: Connection) -> list[str]:
        left: list[str] = []
        for queue in self._own_queues:
            try:
                connection.call(
                    commands.Queue.Delete(0, queue), commands.Queue.DeleteOk
                )
            except BenchError as error:
                left.append(f"queue {queue}: still there, {error}")
        if self._own_exchange:
            delete = commands.Exchange.Delete(0, self.exchange)
            try:
                connection.call(delete, commands.Exchange.DeleteOk)
            except BenchError as failed:
                left.append(f"exchange {self.exchange}: still there, {failed}")
        return left


def _queue_names(options: Options, token: str) -> list[str]:
    name = options.queue or f"amqpd-bench-{token}"
    if options.queues == 1:
        return [name]
    return [f"{name}-{number}" for number in range(1, options.queues + 1)]


def _count(connection: Connection, queue: str) -> int | None:
    """Return how many messages are in a queue, or None if there is no such queue."""
    look = commands.Queue.Declare(0, queue, passive=True)
    try:
        return connection.call(look, commands.Queue.DeclareOk).message_count
    except CallRefused as refused:
        if refused.code == _NOT_FOUND:
            return None
        raise
