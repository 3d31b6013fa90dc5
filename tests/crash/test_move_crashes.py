"""Messages on their way from one queue to another when a call fails or the power goes.

Messages come into queue 1 and move to queue 2, as dead letters do: the copy is appended
and the original settled in one turn. Whatever call fails, and after every power cut, a
message that was confirmed is in one of the two queues and in one only.
"""

import errno
import random
from typing import Final

import pytest

from store.errors import StoreError
from store.message_store import MessageStore
from store.opening import Opened, open_store
from store.options import StoreOptions
from tests.support.memory_filesystem import Fault, MemoryFileSystem, PowerCut
from tests.support.store_driver import DIRECTORY, UUID

OPTIONS: Final = StoreOptions(
    segment_size=2048, reserve_probe_ms=100, checkpoint_ms=200, checkpoint_seals=4
)
SOURCE: Final = 1
TARGET: Final = 2
ROUNDS: Final = 30
Key = tuple[int, int]


class Mover:
    """A store, and what its two queues hold: content by seq."""

    def __init__(self, filesystem: MemoryFileSystem) -> None:
        self.filesystem = filesystem
        self.now_ms = 0
        self.confirmed: set[bytes] = set()
        self.acked: set[bytes] = set()
        self._count = 0
        self.open()

    def open(self) -> None:
        opened: Opened[str] = open_store(
            DIRECTORY, self.filesystem, OPTIONS, UUID, {SOURCE, TARGET}, 9, self.now_ms
        )
        self.store: MessageStore[str] = opened.store
        self.held: dict[int, dict[int, tuple[int, bytes]]] = {}
        self.next_seq: dict[int, int] = {}
        self._waiting: list[bytes] = []
        for queue_id, found in opened.queues.items():
            self.held[queue_id] = {}
            self.next_seq[queue_id] = int(found.next_seq)
            if found.count:
                self._read(queue_id, int(found.next_seq) - 1)

    def _read(self, queue_id: int, last: int) -> None:
        first = 1
        while first <= last:
            step = self.store.begin_read(queue_id, first, last, 100, 1 << 20)
            step.run()
            result = self.store.complete_read(step)
            assert result.error is None and not result.damaged
            for message in result.messages:
                self.held[queue_id][int(message.seq)] = (0, message.content)
            first = last + 1 if result.is_end else int(result.next_seq)

    def append(self, queue_id: int, content: bytes) -> int:
        seq = self.next_seq[queue_id]
        self.next_seq[queue_id] = seq + 1
        number = int(self.store.append(b"e", content, None, 5, 0, queue_id, seq, 0))
        self.held[queue_id][seq] = (number, content)
        return number

    def publish(self) -> None:
        self._count += 1
        content = b"%d:" % self._count + b"x" * 60
        self.append(SOURCE, content)
        self._waiting.append(content)

    def move(self, seq: int) -> None:
        number, content = self.held[SOURCE].pop(seq)
        copy_number = self.append(TARGET, content)
        token = (seq, number, content)
        self.store.settle_moved(number, SOURCE, seq, copy_number, token)

    def ack(self, seq: int) -> None:
        number, content = self.held[TARGET].pop(seq)
        self.store.settle(number, TARGET, seq)
        self.acked.add(content)

    def step(self) -> None:
        """Begin, run and complete one step."""
        self.now_ms += 30
        waiting = self._waiting
        self._waiting = []
        self.store.wait("all", 1, 1)
        step = self.store.begin(True, self.now_ms)
        assert step is not None
        step.run()
        result = self.store.complete(step)
        if result.fatal is not None:
            raise StoreError("the log cannot be used")
        for queue_id, seq in result.lost:
            self.held[queue_id].pop(seq, None)
        for token in result.kept:
            assert isinstance(token, tuple)
            seq, number, content = token
            self.held[SOURCE][seq] = (number, content)
        if not result.refused:
            self.confirmed.update(waiting)

    def contents(self) -> list[bytes]:
        """What both queues hold."""
        return [content for held in self.held.values() for _, content in held.values()]


def workload(mover: Mover, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(ROUNDS):
        for _ in range(rng.randrange(3)):
            mover.publish()
        for seq in sorted(mover.held[SOURCE]):
            if rng.random() < 0.4:
                mover.move(seq)
        for seq in sorted(mover.held[TARGET]):
            if rng.random() < 0.1:
                mover.ack(seq)
        mover.step()


def check(mover: Mover) -> None:
    """Nothing that was confirmed is lost, nothing is there twice."""
    contents = mover.contents()
    assert len(contents) == len(set(contents))
    assert mover.confirmed - mover.acked <= set(contents)


def interrupt(fault: Fault, seed: int) -> bool:
    """Let a call fail in the workload; return whether it was reached."""
    mover = Mover(MemoryFileSystem())
    mover.filesystem.fault = fault
    try:
        workload(mover, seed)
    except (PowerCut, StoreError):
        pass
    else:
        check(mover)
    is_reached = mover.filesystem.fault is None
    mover.filesystem.fault = None
    mover.filesystem.power_cut(random.Random(seed))
    mover.filesystem.restart()
    mover.open()
    check(mover)
    return is_reached


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("part", [0, 40])
def test_a_refused_move_keeps_its_original(code: int, part: int) -> None:
    reached = 0
    for at in range(1, ROUNDS + 8):
        reached += interrupt(Fault(at, code, "write", part), at)
    assert reached >= ROUNDS - 5


def test_the_power_goes_at_every_call() -> None:
    reached = 0
    for at in range(1, 160, 2):
        reached += interrupt(Fault(at, None), at)
    assert reached > 40


def test_a_move_whose_copy_was_acked_meanwhile_stands() -> None:
    mover = Mover(MemoryFileSystem())
    mover.publish()
    mover.step()
    mover.filesystem.fault = Fault(1, errno.ENOSPC, "write")
    mover.move(1)
    mover.store.wait("all", 1, 1)
    step = mover.store.begin(True, 100)
    assert step is not None
    number, _ = mover.held[TARGET].pop(1)
    mover.store.settle(number, TARGET, 1)
    step.run()
    assert mover.store.complete(step).kept == []
    mover.now_ms = 1000
    mover.step()
    mover.filesystem.power_cut(False)
    mover.filesystem.restart()
    mover.open()
    assert mover.contents() == []


def test_while_the_disk_is_full_nothing_moves() -> None:
    mover = Mover(MemoryFileSystem())
    for _ in range(2):
        mover.publish()
        mover.step()
    mover.filesystem.fault = Fault(1, errno.ENOSPC, "write")
    for seq in (1, 2):
        mover.move(seq)
        mover.step()
        assert sorted(mover.held[SOURCE]) == [1, 2]
    mover.filesystem.power_cut(False)
    mover.filesystem.restart()
    mover.open()
    assert sorted(mover.held[SOURCE]) == [1, 2]
    assert mover.held[TARGET] == {}
