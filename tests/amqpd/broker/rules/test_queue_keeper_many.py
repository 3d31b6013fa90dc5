"""A long queue with times to live, on the disk, after a restart: it expires in place.

Half of the messages have a time of their own, a quarter each 30 and 60 seconds; all of
them have ten minutes. Whatever expires, next to nothing of the others is in memory.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pamqp import commands
from pamqp.common import FieldTable

from amqpd.broker.messages.message import Message
from amqpd.broker.queues.pager import WINDOW_MAX, MemoryBudgets
from amqpd.broker.queues.queue import Queue
from tests.support.connection_pair import Bench
from tests.support.content import PERSISTENT_PROPERTIES
from tests.support.ruled import RuledQueues

BUDGETS = MemoryBudgets(1 << 20, 1 << 40)
TTL_MS = 600_000
OWN_TTLS_MS = (None, 30_000, None, 60_000)
#: So many rounds of the timers until all that is due has expired, at most.
ROUNDS_MAX = 20_000


class Place:
    """A broker with little memory and a long queue."""

    def __init__(self, directory: Path, count: int, has_exchange: bool) -> None:
        self.directory = directory
        self.bench = Bench(directory, budgets=BUDGETS)
        pair = self.bench.connect()
        pair.declare("dead", durable=True)
        table: FieldTable = {"x-message-ttl": TTL_MS}
        if has_exchange:
            table |= {
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "dead",
            }
        declare = commands.Queue.Declare(0, "q", durable=True, arguments=table)
        pair.call(1, declare, commands.Queue.DeclareOk)
        self.publish(count)

    def queue(self, name: str = "q") -> Queue:
        return self.bench.broker.vhosts["/"].queues[name]

    def publish(self, count: int) -> None:
        """Within a second."""
        like = RuledQueues(self.bench).message(bytes(100), PERSISTENT_PROPERTIES)
        for number in range(count):
            now_ms = self.bench.now_ms
            message = Message(like.address, like.content, None, like.facts, now_ms)
            ttl_ms = OWN_TTLS_MS[number % 4]
            if ttl_ms is not None:
                message.expires_ms = now_ms + ttl_ms
            self.queue().publish(message)
            if number % (count // 100) == 0:
                self.bench.sync()
                self.bench.page_out()

    def restart(self) -> None:
        now_ms = self.bench.now_ms
        self.bench.close()
        self.bench = Bench(self.directory, budgets=BUDGETS)
        self.bench.now_ms = now_ms
        self.bench.survey()

    def expire_until(self, now_ms: int, left: int) -> None:
        """Time passes; nothing of what has more of it may be in memory meanwhile."""
        self.bench.now_ms = now_ms
        for _ in range(ROUNDS_MAX):
            self.bench.pass_time(1)
            self.bench.sync()
            self.bench.page_out()
            assert self.bench.broker.pager.use.total <= BUDGETS.cold + WINDOW_MAX
            if self.queue().ready_count <= left:
                break
        assert self.queue().ready_count == left


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("has_exchange", [False, True])
def test_each_deadline_takes_its_messages_and_no_other(
    fast_path: Path, has_exchange: bool
) -> None:
    count = 40_000 if has_exchange else 200_000
    place = Place(fast_path / "d", count, has_exchange)
    place.restart()
    start_ms = place.bench.now_ms
    assert place.queue().ready_count == count
    place.expire_until(start_ms + 31_000, count * 3 // 4)
    place.expire_until(start_ms + 61_000, count // 2)
    place.bench.pass_time(400_000)
    assert place.queue().ready_count == count // 2
    place.expire_until(start_ms + TTL_MS, 0)
    dead = place.queue("dead").ready_count
    assert dead == (count if has_exchange else 0)
    place.bench.close()
