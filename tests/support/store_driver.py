"""Drives a store like a broker would, and knows what must be there after a crash.

The model is a dictionary of what was ever appended, each entry with what is known
to be durable. After a crash `check` compares: what was confirmed and not settled is
there with its bytes, what was durably settled is not, and nothing else came up.
What was under way may be either, but a message of several queues is in all of them
or in none.
"""

from dataclasses import dataclass, field
from typing import Final

from store.opening import Opened, open_store
from store.options import StoreOptions
from store.replay import RecoveredQueue
from store.stored_message import StoredMessage
from store.sync_step import SyncStep
from store.syncer import SyncResult
from tests.support.memory_filesystem import MemoryFileSystem

UUID: Final = b"0123456789abcdef"
DIRECTORY: Final = "/data"
LOG: Final = f"{DIRECTORY}/log"
QUEUES: Final = {1, 2, 3}


@dataclass
class Entry:
    """One message in one queue."""

    number: int
    group: int
    content: bytes
    body: bytes | None = None
    is_durable: bool = False
    is_settled: bool = False
    is_settled_durably: bool = False
    is_lost: bool = False
    is_delivered: bool = False
    is_delivered_durably: bool = False


Key = tuple[int, int]


@dataclass
class Event:
    """Something the store was told: `kind` happened to `key`."""

    kind: str
    key: Key


@dataclass
class Flight:
    """A step and the events before it that no step carries yet."""

    step: SyncStep[str]
    events: list[Event]


@dataclass
class StoreDriver:
    """A store, its model and the steps in flight."""

    filesystem: MemoryFileSystem
    options: StoreOptions = field(
        default_factory=lambda: StoreOptions(
            segment_size=4096,
            reserve_probe_ms=100,
            checkpoint_ms=200,
            checkpoint_seals=4,
        )
    )
    queues: set[int] = field(default_factory=lambda: set(QUEUES))
    highest_queue_id: int = 9
    entries: dict[Key, Entry] = field(default_factory=dict)
    next_seq: dict[int, int] = field(default_factory=dict)
    now_ms: int = 0
    is_fatal: bool = False
    is_disk_full: bool = False
    confirmed: list[tuple[int, int]] = field(default_factory=list)
    refused: list[tuple[int, int]] = field(default_factory=list)
    _waited: int = 0
    _appended: list[Key] = field(default_factory=list)
    _promised: dict[int, list[Key]] = field(default_factory=dict)
    _group: int = 0
    _events: list[Event] = field(default_factory=list)
    _written: list[Event] = field(default_factory=list)
    flights: list[Flight] = field(default_factory=list)

    def open(self) -> Opened[str]:
        opened: Opened[str] = open_store(
            DIRECTORY,
            self.filesystem,
            self.options,
            UUID,
            self.queues,
            self.highest_queue_id,
            self.now_ms,
        )
        self.store = opened.store
        self.is_fatal = False
        self.is_disk_full = opened.store.is_disk_full
        return opened

    # -- what a broker does

    def append(self, *queue_ids: int, size: int = 40, body: bytes | None = None) -> Key:
        """Append one message for some queues; return its key in the first."""
        self._group += 1
        content = b"%d:" % self._group + b"x" * size
        number = 0
        for queue_id in queue_ids:
            seq = self.next_seq.get(queue_id, 1)
            self.next_seq[queue_id] = seq + 1
            if number == 0:
                number = self.store.append(
                    b"envelope", content, body, 5, 7, queue_id, seq, 0
                )
            else:
                self.store.add_destination(queue_id, seq, 0)
            key = (queue_id, seq)
            self.entries[key] = Entry(number, self._group, content, body)
            self._events.append(Event("append", key))
            self._appended.append(key)
        return queue_ids[0], self.next_seq[queue_ids[0]] - 1

    def live(self, queue_id: int) -> list[Key]:
        """Return the keys a broker would have in a queue, in order."""
        return sorted(
            key
            for key, entry in self.entries.items()
            if key[0] == queue_id and not (entry.is_settled or entry.is_lost)
        )

    def settle(self, key: Key) -> None:
        self.store.settle(self.entries[key].number, *key)
        self._settled(key)

    def _settled(self, key: Key) -> None:
        self.entries[key].is_settled = True
        self._events.append(Event("settle", key))

    def deliver(self, queue_id: int) -> None:
        """Deliver everything in a queue once."""
        keys = self.live(queue_id)
        if keys:
            self.store.note_delivered(queue_id, 0, keys[-1][1])
        for key in keys:
            self.entries[key].is_delivered = True
            self._events.append(Event("deliver", key))

    def give_back(self, key: Key, count: int) -> None:
        self.store.note_returned(*key, count, 0)
        self.entries[key].is_delivered = True
        self._events.append(Event("deliver", key))

    def cold(self, queue_id: int) -> list[Key]:
        """Return the keys whose bytes a broker may have dropped."""
        base = self.store.written_base
        return [key for key in self.live(queue_id) if self.entries[key].number < base]

    def settle_cold(self, queue_id: int, count: int) -> None:
        """Settle the first cold messages of a queue by one range."""
        cold = self.cold(queue_id)[:count]
        if cold:
            self.store.settle_range(queue_id, cold[0][1], cold[-1][1])
        for key in cold:
            self._settled(key)

    def read(self, queue_id: int, first: int, last: int) -> list[StoredMessage]:
        """Read messages back in windows, as a queue does whose head is cold."""
        found: list[StoredMessage] = []
        while first <= last:
            step = self.store.begin_read(queue_id, first, last, 5, 2000)
            step.run()
            result = self.store.complete_read(step)
            assert result.error is None, result.error
            assert result.damaged == []
            found += result.messages
            assert result.next_seq > first
            first = last + 1 if result.is_end else result.next_seq
        return found

    def check_cold(self, queue_id: int) -> None:
        """Read what is cold and compare it."""
        cold = self.cold(queue_id)
        if not cold:
            return
        found = self.read(queue_id, cold[0][1], cold[-1][1])
        assert [message.seq for message in found] == [seq for _, seq in cold]
        for message in found:
            entry = self.entries[queue_id, message.seq]
            assert (message.content, message.body) == (entry.content, entry.body)
            assert message.envelope == b"envelope"
            assert (message.enqueued_ms, message.expires_ms) == (5, 7)

    def forget(self, queue_id: int) -> None:
        """Delete a queue whose row is gone; another comes with a new id."""
        self.store.forget_queue(queue_id)
        self.queues.discard(queue_id)
        for key in self.live(queue_id):
            self.entries[key].is_settled = True

    def wait(self) -> None:
        self._waited += 1
        self._promised[self._waited] = self._appended
        self._appended = []
        self.store.wait("waiter", self._waited, self._waited)

    # -- steps

    def begin(self, sync: bool = True) -> Flight | None:
        step = self.store.begin(sync, self.now_ms)
        if step is None:
            return None
        flight = Flight(step, self._events)
        self._events = []
        self.flights.append(flight)
        return flight

    def finish(self) -> SyncResult[str] | None:
        """Run and complete the oldest step in flight."""
        if not self.flights:
            return None
        if self._appended:
            # Whoever wants to know asks in the turn in which it appends.
            self.wait()
        self.flights[0].step.run()
        return self.complete()

    def complete(self) -> SyncResult[str]:
        """Complete the oldest step in flight, which has run."""
        flight = self.flights.pop(0)
        result = self.store.complete(flight.step)
        self.is_disk_full = result.disk_full
        self._learn(flight, result)
        for one in result.refused:
            self.refused += [(one.first, one.last)]
            for number in range(one.first, one.last + 1):
                del self._promised[number]
        for one in result.durable:
            self.confirmed += [(one.first, one.last)]
            for number in range(one.first, one.last + 1):
                self._check_confirm(number)
        return result

    def _check_confirm(self, number: int) -> None:
        """Everything that was appended before the wait is durable, or settled."""
        for key in self._promised.pop(number):
            entry = self.entries[key]
            if not entry.is_settled:
                assert entry.is_durable, f"{key} was confirmed early"
                assert not entry.is_lost, f"{key} was refused and confirmed"

    def _learn(self, flight: Flight, result: SyncResult[str]) -> None:
        """Update the model from what came of a step."""
        if result.fatal is not None:
            self.is_fatal = True
            return
        for key in result.lost:
            assert not self.entries[key].is_durable, f"{key} is durable and refused"
            self.entries[key].is_lost = True
        if flight.step.write.error is not None:
            # Settles are carried into the next batch; appends were lost.
            self._note_durable(self._written)
            self._written = []
            self._events = [
                event
                for event in flight.events + self._events
                if event.kind != "append"
            ]
            return
        self._written += flight.events
        if flight.step.write.sync:
            self._note_durable(self._written)
            self._written = []

    def _note_durable(self, events: list[Event]) -> None:
        for event in events:
            entry = self.entries[event.key]
            if event.kind == "append":
                entry.is_durable = not entry.is_lost
            elif event.kind == "settle":
                entry.is_settled_durably = True
            else:
                entry.is_delivered_durably = True

    def sync(self) -> SyncResult[str] | None:
        """Begin, run and complete one synced step, and all before it."""
        self.wait()
        self.begin()
        result = None
        while self.flights:
            result = self.finish()
        return result

    def tick(self) -> None:
        """Let time pass and finish everything."""
        self.now_ms += 1000
        self.begin()
        while self.flights:
            self.finish()

    def maintain(self) -> None:
        """Do a slice of looking after the log, and run its step if there is one."""
        step = self.store.begin_maintenance(self.now_ms)
        if step is not None:
            step.run()
            self.store.complete_maintenance(step)

    def look_after(self) -> None:
        """Let time pass until nothing is left to do for the log."""
        for _ in range(60):
            self.now_ms += 300
            self.maintain()

    def stop(self) -> None:
        """Stop cleanly."""
        step = self.store.close_step(self.now_ms)
        assert step is not None
        self.flights.append(Flight(step, self._events))
        self._events = []
        while self.flights:
            self.finish()
        if not self.is_fatal:
            self.store.finish()
        self.store.close()

    # -- after a crash

    def crash(self) -> None:
        """Forget everything that was in memory."""
        self.flights = []
        self._events = []
        self._written = []
        self._appended = []
        self._promised = {}

    def check(self, opened: Opened[str]) -> None:
        """Compare what was recovered with what may be there, and go on from it."""
        found = self._found(opened)
        for key, entry in self.entries.items():
            if entry.is_durable and not entry.is_settled and not entry.is_lost:
                assert key in found, f"confirmed message {key} is lost"
            if entry.is_settled_durably:
                assert key not in found, f"settled message {key} came back"
            if entry.is_lost:
                assert key not in found, f"refused message {key} came up"
        self._check_groups(found)
        self._go_on(opened, found)

    def _found(self, opened: Opened[str]) -> dict[Key, bool]:
        """Return what is there, and whether it was delivered before."""
        found: dict[Key, bool] = {}
        for queue_id, queue in opened.queues.items():
            messages = self.read(queue_id, queue.first_seq, queue.next_seq - 1)
            seqs = [message.seq for message in messages]
            assert seqs == sorted(set(seqs))
            assert queue.count == len(messages)
            assert queue.first_seq == (seqs[0] if seqs else queue.next_seq)
            for message in messages:
                key = (queue_id, message.seq)
                found[key] = self._check_message(key, message, queue)
        return found

    def _check_message(
        self, key: Key, message: StoredMessage, queue: RecoveredQueue
    ) -> bool:
        """Compare one message with what was appended; return whether it is old."""
        assert key in self.entries, f"{key} was never appended"
        entry = self.entries[key]
        assert message.content == entry.content
        assert message.body == entry.body
        assert message.envelope == b"envelope"
        assert (message.enqueued_ms, message.expires_ms) == (5, 7)
        seq = message.seq
        is_delivered = seq <= queue.delivered_upper or seq in queue.returned
        if entry.is_delivered_durably and entry.is_durable:
            assert is_delivered, f"{key} was delivered before"
        if is_delivered:
            assert entry.is_delivered, f"{key} was never delivered"
        return is_delivered

    def _check_groups(self, found: dict[Key, bool]) -> None:
        """A message of several queues is in all that did not settle it, or in none."""
        groups: dict[int, list[Key]] = {}
        for key, entry in self.entries.items():
            if not entry.is_settled:
                groups.setdefault(entry.group, []).append(key)
        for keys in groups.values():
            present = [key in found for key in keys]
            assert all(present) or not any(present), f"{keys}: a batch came in part"

    def _go_on(self, opened: Opened[str], found: dict[Key, bool]) -> None:
        old = self.entries
        self.entries = {}
        for key, is_delivered in found.items():
            before = old[key]
            self.entries[key] = Entry(
                0,
                before.group,
                before.content,
                before.body,
                is_durable=True,
                is_delivered=is_delivered,
                is_delivered_durably=is_delivered,
            )
        self.next_seq = {
            queue_id: queue.next_seq for queue_id, queue in opened.queues.items()
        }
        for queue_id, seq in found:
            assert self.next_seq[queue_id] > seq

    def reopen(self) -> Opened[str]:
        """Open after a crash and check what was recovered."""
        self.crash()
        opened = self.open()
        self.check(opened)
        return opened

    def reopened(self, queue_id: int) -> list[int]:
        """Open after a crash, check, and return the seqs that a queue holds."""
        self.reopen()
        return [seq for _, seq in self.live(queue_id)]
