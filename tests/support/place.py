"""A directory where brokers with next to no memory are opened one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from pamqp import commands
from pamqp.common import FieldTable

from amqpd.broker.queues.queue import Queue
from tests.support.connection_pair import Bench
from tests.support.content import PERSISTENT_PROPERTIES
from tests.support.little_memory import NOTHING, UnreadableDisk
from tests.support.ruled import RuledQueues


class Place:
    """A directory on which brokers are opened one after the other."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.disk = UnreadableDisk()
        self.bench = Bench(directory, self.disk, budgets=NOTHING)

    def restart(self) -> None:
        """Stop and start."""
        now_ms = self.bench.now_ms
        self.bench.close()
        self.bench = Bench(self.directory, self.disk, budgets=NOTHING)
        self.bench.now_ms = now_ms
        self.bench.broker.timers.now_ms = now_ms

    def declare(self, name: str, **table: object) -> Queue:
        """Declare a durable queue."""
        arguments: dict[str, object] = {
            "x-" + key.replace("_", "-"): value for key, value in table.items()
        }
        pair = self.bench.connect()
        table_sent = cast(FieldTable, arguments)
        sent = commands.Queue.Declare(0, name, durable=True, arguments=table_sent)
        pair.call(1, sent, commands.Queue.DeclareOk)
        return self.queue(name)

    def queue(self, name: str) -> Queue:
        return self.bench.broker.vhosts["/"].queues[name]

    def publish(
        self,
        queue: Queue,
        *bodies: bytes,
        ttl_ms: int | None = None,
        is_persistent: bool = True,
    ) -> None:
        """Publish."""
        ruled = RuledQueues(self.bench)
        properties = PERSISTENT_PROPERTIES if is_persistent else b"\x00\x00"
        for body in bodies:
            queue.publish(ruled.message(body, properties, ttl_ms, key=queue.name))
            ruled.surroundings.keepers.run()

    def page_out(self, queue: Queue) -> None:
        """Let everything leave memory."""
        self.bench.sync()
        self.bench.page_out()
        assert not queue.has_memory()
