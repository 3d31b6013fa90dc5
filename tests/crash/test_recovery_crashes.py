"""Recovery from any log that stopped anywhere, again and again, and interrupted itself.

Logs grow at random: batches, settles, seals, checkpoints taken while the log goes on,
index files lost. Then the power goes; recovery is cut off at the n-th call it makes,
the next one must find exactly what was durable, and what is written after it must
survive the next power cut too. Seed and number of cases are printed; AMQPD_FULL=1 runs
more of them.
"""

import os
import random
import sys
from typing import Final

import pytest

from store.recovery import Recovered
from tests.support.memory_filesystem import Fault, PowerCut
from tests.support.written_log import (
    FIRST_RECORD,
    LOG,
    CheckpointInWork,
    WrittenLog,
    live_seqs,
    long_log,
)

IS_FULL: Final = os.environ.get("AMQPD_FULL") == "1"
SEED: Final = int(os.environ.get("AMQPD_SEED", "20251"))
LOGS: Final = 2000 if IS_FULL else 60


def say(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{text}, AMQPD_SEED={SEED} ")


class Growth:
    """Lets a log grow."""

    def __init__(self, log: WrittenLog, rng: random.Random) -> None:
        self.log = log
        self.rng = rng
        self.checkpoint: CheckpointInWork | None = None
        self.next_seq: dict[int, int] = {}
        self.removed = 0

    def run(self, turns: int) -> None:
        for _ in range(turns):
            self._turn()

    def begin_in_vain(self) -> None:
        """Write a batch that is not synced: there or not, as a whole."""
        batch = self.log.begin()
        batch.message((1, self._take_seq(1)))
        self.log.write(batch, sync=False)

    def _turn(self) -> None:
        self._write()
        what = self.rng.random()
        if what < 0.15:
            self.log.seal(has_index=self.rng.random() < 0.7)
        elif what < 0.25 and self.checkpoint is None:
            self.checkpoint = self.log.begin_checkpoint()
        elif self.checkpoint is not None and what < 0.6 and self.checkpoint.advance():
            self.checkpoint.finish()
            self.checkpoint = None
            self.removed += self.log.remove_dead()

    def _take_seq(self, queue_id: int) -> int:
        # Some were settled before they were written.
        seq = self.next_seq.get(queue_id, self.log.upper.get(queue_id, 0) + 1)
        seq += self.rng.random() < 0.2
        self.next_seq[queue_id] = seq + 1
        return seq

    def _write(self) -> None:
        batch = self.log.begin()
        known = sorted(self.log.known)
        for _ in range(self.rng.randrange(6)):
            queues = self.rng.choice((known[:1], known[1:2], known))
            batch.message(*[(one, self._take_seq(one)) for one in queues])
        queue_id = self.rng.choice(known)
        live = sorted(self.log.live.get(queue_id, set()))
        what = self.rng.random()
        if live and what < 0.5:
            count = self.rng.randrange(1, len(live) + 1)
            batch.settle(queue_id, *self.rng.sample(live, count))
        elif live and what < 0.6:
            batch.settle(queue_id, *live)
        elif live and what < 0.7:
            batch.deliver(queue_id, live[-1])
        elif live and what < 0.8:
            batch.give_back(queue_id, self.rng.choice(live), self.rng.randrange(4))
        self.log.write(batch)


def spoil(log: WrittenLog, rng: random.Random, is_clean: bool) -> None:
    """Lose index files; damage some of them, and one of two checkpoints.

    After a clean stop the older one is not looked at: it stays as it is, since the
    next damage might be to the other.
    """
    names = log.names()
    for name in names:
        path = f"{LOG}/{name}"
        if name.endswith(".idx"):
            what = rng.random()
            if what < 0.1:
                log.filesystem.remove(path)
            elif what < 0.2:
                damage(log, path, rng)
    checkpoints = [name for name in names if name.startswith("checkpoint.")]
    if len(checkpoints) == 2 and rng.random() < 0.3:
        path = f"{LOG}/{max(checkpoints) if is_clean else rng.choice(checkpoints)}"
        damage(log, path, rng)


def damage(log: WrittenLog, path: str, rng: random.Random) -> None:
    size = log.filesystem.size(path)
    if size > 0:
        log.filesystem.damage(path, rng.randrange(size))


def stop_somehow(log: WrittenLog, rng: random.Random, is_served: bool) -> None:
    """Cut the power; what only recovery wrote may also stay in the page cache."""
    what = rng.randrange(4)
    if what == 0 and not is_served:
        log.filesystem.restart()
    else:
        log.filesystem.power_cut((False, False, rng, rng)[what])


@pytest.mark.parametrize("part", range(4))
def test_what_was_durable_is_recovered_from_any_log(
    part: int, capsys: pytest.CaptureFixture[str]
) -> None:
    count = removed = 0
    for seed in range(SEED + part * LOGS, SEED + (part + 1) * LOGS):
        rng = random.Random(seed)
        log = WrittenLog(allocation=rng.choice((2048, 8192)))
        for _ in range(rng.randrange(1, 4)):
            growth = Growth(log, rng)
            growth.run(rng.randrange(1, 60))
            if rng.random() < 0.2:
                log.filesystem.power_cut(False)
                log.go_on(log.recover())
                growth = Growth(log, rng)
                growth.run(rng.randrange(4))
            removed += growth.removed
            is_clean = rng.random() < 0.2
            if is_clean:
                log.stop()
            else:
                growth.begin_in_vain()
            # What is not durable is lost: the model knows no other.
            log.filesystem.power_cut(False)
            spoil(log, rng, is_clean)
            interrupted = rng.randrange(1, 60)
            log.filesystem.fault = Fault(interrupted)
            try:
                log.recover()
            except PowerCut:
                count += 1
            stop_somehow(log, rng, False)
            recovered = log.recover()
            log.check(recovered)
            log.go_on(recovered)
    say(capsys, f"logs: {LOGS}, interrupted recoveries: {count}, removed: {removed}")
    assert count > 0
    assert removed > 0


def troubled_log() -> WrittenLog:
    """A log with all that a start can find: each of its steps has something to do."""
    log = long_log()
    old = bytes(log.filesystem.content(f"{LOG}/checkpoint.00000001"))
    log.settle(1, 10)
    log.seal(has_index=False)
    log.messages(3, 1, 2, 3)
    log.settle(3, 2)
    log.checkpoint()
    log.messages(1, 50)
    # A checkpoint that was to go, one in work, an index file without a segment.
    log.put(f"{LOG}/checkpoint.00000001", old)
    log.put(f"{LOG}/checkpoint.00000009.tmp", b"half")
    log.put(f"{LOG}/00000099.idx", b"left over")
    # A message that is damaged where the checkpoint knew it.
    log.filesystem.damage(log.path, FIRST_RECORD + 40)
    log.live[3].discard(1)
    log.write(log.begin().message((1, 51)), sync=False)
    log.filesystem.sync_directory(LOG)
    log.filesystem.restart()
    return log


def test_a_power_cut_at_every_call_of_a_recovery_loses_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cuts = n = before = 0
    rng = random.Random(SEED)
    while cuts > before or n == 0:
        n += 1
        before = cuts
        for choice in (True, False, rng, rng):
            log = troubled_log()
            log.filesystem.fault = Fault(n)
            try:
                log.recover()
            except PowerCut:
                cuts += 1
            log.filesystem.power_cut(choice)
            recovered = log.recover()
            learn(log, recovered)
            log.check(recovered)
            # It is served, and the power goes again.
            log.go_on(recovered)
            log.messages(2, 60)
            log.filesystem.power_cut(False)
            log.check(log.recover())
    say(capsys, f"power cuts in a recovery: {cuts}")
    assert cuts == 4 * (n - 1)


def learn(log: WrittenLog, recovered: Recovered) -> None:
    """Seq 51 was not synced: it may be there or not, and then stays so."""
    if live_seqs(recovered, 1)[-1] == 51:
        log.live[1].add(51)
        log.upper[1] = 51
