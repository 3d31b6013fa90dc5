"""A queue with rules of a real broker, and a model that looks at every message.

The model is a list. It takes each step of a script too: publish, get, ack, reject,
requeue, time that passes, memory that is taken away, clean stops and kills. What was
not synced before a kill is lost, what was is there again: the model keeps what it was
at the last sync. Where messages are not in memory they may be late by a second to
expire, so only the end of a script is exact then; but none is delivered after its time.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from hypothesis import strategies as st
from pamqp import commands
from pamqp.common import FieldTable

from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.pager import MemoryBudgets
from amqpd.broker.queues.queue import Queue
from tests.support.connection_pair import Bench
from tests.support.little_memory import is_nothing_used
from tests.support.ruled import RuledQueues, body_of, headers_of

PLENTY: Final = MemoryBudgets(1 << 40, 1 << 40)
NOTHING: Final = MemoryBudgets(0, 0)
NEVER: Final = 1 << 60
PRIORITY_MAX: Final = 2
#: Of what is published two thirds are persistent; priorities and times vary.
NUMBERS: Final = st.integers(0, 1 << 16)

STEPS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), NUMBERS),
        st.tuples(st.just("publish"), NUMBERS),
        st.tuples(st.just("publish"), NUMBERS),
        st.tuples(st.just("get"), st.just(0)),
        st.tuples(st.just("get"), st.just(0)),
        st.tuples(st.just("ack"), NUMBERS),
        st.tuples(st.just("reject"), NUMBERS),
        st.tuples(st.just("requeue"), NUMBERS),
        st.tuples(st.just("wait"), st.sampled_from([0, 1, 5, 10, 40, 100])),
        st.tuples(st.just("sync"), st.just(0)),
        st.tuples(st.just("page_out"), st.just(0)),
    ),
    # The average is twice that: shorter scripts find nothing.
    min_size=20,
    max_size=60,
)
#: With stops, kills, and the deadlines that a start finds on the disk.
STEPS_AND_STARTS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), NUMBERS),
        st.tuples(st.just("publish"), NUMBERS),
        st.tuples(st.just("publish"), NUMBERS),
        st.tuples(st.just("get"), st.just(0)),
        st.tuples(st.just("get"), st.just(0)),
        st.tuples(st.just("ack"), NUMBERS),
        st.tuples(st.just("reject"), NUMBERS),
        st.tuples(st.just("requeue"), NUMBERS),
        st.tuples(st.just("wait"), st.sampled_from([0, 5, 40, 300])),
        st.tuples(st.just("sync"), st.just(0)),
        st.tuples(st.just("sync"), st.just(0)),
        st.tuples(st.just("page_out"), st.just(0)),
        st.tuples(st.just("survey"), st.just(0)),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.just("kill"), st.just(0)),
    ),
    # The average is twice that: shorter scripts find nothing.
    min_size=20,
    max_size=60,
)


@dataclass
class Rules:
    """What the queue's arguments say."""

    ttl_ms: int | None = None
    length_max: int | None = None
    overflow: str = "drop-head"
    delivery_max: int | None = None
    has_priorities: bool = False
    #: What publishers may give a message.
    times: tuple[int | None, ...] = (None, None, 0, 5, 20, 200)

    def table(self) -> dict[str, object]:
        named = {
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead",
            "x-message-ttl": self.ttl_ms,
            "x-max-length": self.length_max,
            "x-overflow": self.overflow,
            "x-delivery-limit": self.delivery_max,
            "x-max-priority": PRIORITY_MAX if self.has_priorities else None,
        }
        return {key: value for key, value in named.items() if value is not None}


@dataclass
class Entry:
    """A message of the model."""

    number: int
    deadline_ms: int
    priority: int
    is_persistent: bool
    was_delivered: bool = False

    @property
    def place(self) -> tuple[int, int]:
        return -self.priority, self.number


@dataclass
class Contents:
    """What the model says is in the queue, and what became of the rest."""

    ready: list[Entry] = field(default_factory=list)
    out: list[Entry] = field(default_factory=list)
    returns: dict[int, int] = field(default_factory=dict)
    #: Number, reason, and whether it outlives the broker.
    dead: list[tuple[int, str, bool]] = field(default_factory=list)

    def after_a_start(self) -> Contents:
        """What is left of it when the broker has ended, and began anew."""
        kept = [entry for entry in self.ready + self.out if entry.is_persistent]
        return Contents(
            sorted(kept, key=lambda entry: entry.place),
            [],
            self.returns,
            [letter for letter in self.dead if letter[2]],
        )


class RuledQueueAndModel:
    """A durable queue whose dead letters go to another, and what should be in both."""

    def __init__(self, directory: Path, budgets: MemoryBudgets, rules: Rules) -> None:
        self.directory = directory
        self.budgets = budgets
        self.rules = rules
        self.is_exact = budgets is PLENTY
        self.bench = Bench(directory, budgets=budgets)
        pair = self.bench.connect()
        pair.declare("dead", durable=True)
        table = cast(FieldTable, rules.table())
        sent = commands.Queue.Declare(0, "q", durable=True, arguments=table)
        pair.call(1, sent, commands.Queue.DeclareOk)
        self.now = Contents()
        self.synced = Contents()
        self.references: dict[int, Reference] = {}
        self.count = 0

    def queue(self, name: str = "q") -> Queue:
        return self.bench.broker.vhosts["/"].queues[name]

    def do(self, what: str, number: int) -> None:
        getattr(self, what)(number)
        if self.is_exact:
            assert self.queue().ready_count == len(self.now.ready)
        assert self.queue().unacked_count == len(self.now.out)

    # -- messages -------------------------------------------------------------

    def publish(self, choice: int) -> None:
        ruled = RuledQueues(self.bench)
        rules = self.rules
        self.count += 1
        is_persistent = choice % 3 != 1
        priority = choice // 3 % (PRIORITY_MAX + 1) if rules.has_priorities else 0
        ttl_ms = rules.times[choice // 9 % len(rules.times)]
        properties = b"\x18\x00" + bytes([1 + is_persistent, priority])
        message = ruled.message(b"%d" % self.count, properties, ttl_ms)
        times = [time for time in (ttl_ms, rules.ttl_ms) if time is not None]
        deadline_ms = self.bench.now_ms + min(times) if times else NEVER
        entry = Entry(self.count, deadline_ms, priority, is_persistent)
        keeper = self.queue().keeper
        assert keeper is not None
        is_refused = self.is_full and rules.overflow != "drop-head"
        assert keeper.refuses(message) == is_refused
        if is_refused:
            keeper.on_refused(message)
            if rules.overflow == "reject-publish-dlx":
                self.bury(entry, "maxlen")
        else:
            self.queue().publish(message)
            self.now.ready.append(entry)
        ruled.surroundings.keepers.run()
        self.settle_down()

    @property
    def is_full(self) -> bool:
        length_max = self.rules.length_max
        return length_max is not None and len(self.now.ready) >= length_max

    def get(self, _: int) -> None:
        self.bench.broker.timers.now_ms = self.bench.now_ms
        reference = self.queue().get(False)
        self.expire()
        if reference is None:
            assert not self.now.ready
            return
        number = int(body_of(reference.message))
        entry = self.now.ready.pop(0)
        assert number == entry.number
        assert entry.deadline_ms > self.bench.now_ms
        assert reference.redelivered == entry.was_delivered
        if self.rules.delivery_max is not None:
            told = headers_of(reference).get("x-delivery-count", 0)
            assert told == self.now.returns.get(number, 0)
        entry.was_delivered = True
        self.now.out.append(entry)
        self.references[number] = reference

    def take(self, choice: int) -> tuple[Entry, Reference] | None:
        out = self.now.out
        if not out:
            return None
        entry = out.pop(choice % len(out))
        return entry, self.references.pop(entry.number)

    def ack(self, choice: int) -> None:
        taken = self.take(choice)
        if taken is not None:
            taken[1].queue.settle(taken[1])

    def reject(self, choice: int) -> None:
        taken = self.take(choice)
        if taken is not None:
            taken[1].queue.reject(taken[1])
            self.bury(taken[0], "rejected")

    def requeue(self, choice: int) -> None:
        taken = self.take(choice)
        if taken is None:
            return
        entry, reference = taken
        self.bench.broker.timers.now_ms = self.bench.now_ms
        reference.queue.requeue(reference)
        count = self.now.returns.get(entry.number, 0) + 1
        self.now.returns[entry.number] = count
        limit = self.rules.delivery_max
        if limit is not None and count > limit:
            self.bury(entry, "delivery_limit")
        else:
            self.now.ready.append(entry)
            self.settle_down()

    # -- time, memory and disk ------------------------------------------------

    def wait(self, milliseconds: int) -> None:
        self.bench.pass_time(milliseconds)
        self.expire()

    def sync(self, _: int) -> None:
        self.bench.sync()
        self.synced = deepcopy(self.now)

    def page_out(self, _: int) -> None:
        before_ms = self.bench.now_ms
        self.bench.page_out()
        # Letting go takes pauses, and time is the model's.
        self.bench.now_ms = before_ms

    def survey(self, _: int) -> None:
        self.bench.survey()

    def restart(self, _: int) -> None:
        self.bench.close()
        self.synced = self.now
        self._start()

    def kill(self, _: int) -> None:
        self.bench.kill()
        self._start()

    def _start(self) -> None:
        now_ms = self.bench.now_ms
        self.bench = Bench(self.directory, budgets=self.budgets)
        self.bench.now_ms = now_ms
        self.bench.broker.timers.now_ms = now_ms
        self.references.clear()
        self.synced = self.synced.after_a_start()
        self.now = deepcopy(self.synced)
        self.expire()

    # -- the model ------------------------------------------------------------

    def bury(self, entry: Entry, reason: str) -> None:
        self.now.dead.append((entry.number, reason, entry.is_persistent))

    def settle_down(self) -> None:
        ready = self.now.ready
        ready.sort(key=lambda entry: entry.place)
        self.expire()
        length_max = self.rules.length_max
        if length_max is not None and self.rules.overflow == "drop-head":
            while len(ready) > length_max:
                self.bury(ready.pop(0), "maxlen")

    def expire(self) -> None:
        for entry in list(self.now.ready):
            if entry.deadline_ms <= self.bench.now_ms:
                self.now.ready.remove(entry)
                self.bury(entry, "expired")

    def check_end(self) -> None:
        """In the end every dead letter is there once, with its reason."""
        self.bench.survey()
        for _ in range(30):
            self.wait(1000)
        assert self.queue().ready_count == len(self.now.ready)
        found: list[tuple[int, str]] = []
        while True:
            reference = self.queue("dead").get(True)
            if reference is None:
                break
            number = int(body_of(reference.message))
            found.append((number, str(headers_of(reference)["x-first-death-reason"])))
        assert sorted(found) == sorted(letter[:2] for letter in self.now.dead)
        while self.now.ready:
            self.get(0)
        assert self.queue().get(True) is None
        while self.now.out:
            self.ack(0)
        assert is_nothing_used(self.bench)
