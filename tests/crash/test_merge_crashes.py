"""The power goes, or a call fails, at every call of a checkpoint, a removal or a merge.

A log of which most is settled is looked after while it goes on being written and
read; the n-th call that this makes fails or cuts the power. Then the store is
recovered, compared with a model, used, looked after and interrupted again. Every test
says how many cases it ran and from which seed; the default is a sample, AMQPD_FULL=1
runs all of them.
"""

import errno
import os
import random
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from store.cold_read import ColdRead
from store.options import StoreOptions
from tests.support.memory_filesystem import Fault, MemoryFileSystem, PowerCut
from tests.support.store_driver import LOG, StoreDriver

IS_FULL: Final = os.environ.get("AMQPD_FULL") == "1"
SEED: Final = int(os.environ.get("AMQPD_SEED", "20253"))
CASES: Final = 1_000_000 if IS_FULL else 40
SEEDS: Final = 12 if IS_FULL else 3
ROUNDS: Final = 40
SLICES: Final = 6


class Workload:
    """A broker that keeps one message of ten, and the calls that may fail."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.driver = StoreDriver(
            MemoryFileSystem(),
            StoreOptions(
                segment_size=2048,
                reserve_probe_ms=100,
                checkpoint_ms=400,
                checkpoint_seals=3,
            ),
        )
        self.fault: Fault | None = None
        self.call_count = 0
        self.merges = 0
        self.removed = 0
        self.checkpoints = 0
        self.reads: list[ColdRead] = []

    def run(self, rounds: int = ROUNDS) -> None:
        """Write, settle and look after the log, in turn and at the same time."""
        for _ in range(rounds):
            self._write()
            for _ in range(SLICES):
                self._maintain()
            self._end_reads()
        statistics = self.driver.store.statistics
        self.merges += int(statistics.merges)
        self.removed += int(statistics.removed_segments)
        self.checkpoints += int(statistics.checkpoints)

    def _write(self) -> None:
        driver = self.driver
        known = sorted(driver.queues)
        for _ in range(self.rng.randrange(1, 6)):
            queues = self.rng.choice((known[:1], known[1:2], known[:2], known))
            driver.append(*queues, size=self.rng.choice((20, 200, 700)))
        for queue_id in known:
            for key in driver.live(queue_id)[:-4]:
                # Some stay for long, most go in the order they came.
                if key[1] % 10 and self.rng.random() < 0.8:
                    driver.settle(key)
            if self.rng.random() < 0.02:
                for key in driver.live(queue_id):
                    driver.settle(key)
        if self.rng.random() < 0.05 and driver.highest_queue_id < 40:
            driver.forget(self.rng.choice(known))
            driver.highest_queue_id += 1
            driver.queues.add(driver.highest_queue_id)
        driver.sync()

    def _maintain(self) -> None:
        """Begin a slice, do other things while its step runs, take it back."""
        driver = self.driver
        driver.now_ms += 60
        step = driver.store.begin_maintenance(driver.now_ms)
        if step is None:
            return
        self._meanwhile()
        filesystem = driver.filesystem
        before = len(filesystem.calls)
        filesystem.fault = self.fault
        try:
            step.run()
        finally:
            self.call_count += len(filesystem.calls) - before
            filesystem.fault = None
        self._meanwhile()
        driver.store.complete_maintenance(step)

    def _meanwhile(self) -> None:
        what = self.rng.random()
        driver = self.driver
        queue_id = self.rng.choice(sorted(driver.queues))
        live = driver.live(queue_id)
        if what < 0.3 and live:
            driver.settle(self.rng.choice(live))
            driver.sync()
        elif what < 0.5 and not driver.is_disk_full:
            # On a full disk a settle may wait, and is not in the index.
            driver.check_cold(queue_id)
        elif what < 0.7 and driver.cold(queue_id):
            first = driver.cold(queue_id)[0][1]
            last = driver.cold(queue_id)[-1][1]
            self.reads.append(
                driver.store.begin_read(queue_id, first, last, 50, 20_000)
            )

    def _end_reads(self) -> None:
        """Run the reads that were planned before files were merged or removed."""
        driver = self.driver
        for step in self.reads:
            step.run()
            result = driver.store.complete_read(step)
            assert result.error is None, result.error
            assert result.damaged == []
            for message in result.messages:
                entry = driver.entries[int(step.queue_id), int(message.seq)]
                assert message.content == entry.content
        self.reads = []

    def go_on(self) -> None:
        """Use what was recovered; everything is still there afterwards."""
        self.fault = None
        self.reads = []
        self.run(8)
        for queue_id in sorted(self.driver.queues):
            self.driver.check_cold(queue_id)


def call_count(seed: int) -> int:
    """Return how many calls the maintenance makes when nothing goes wrong."""
    workload = Workload(seed)
    workload.driver.open()
    workload.run()
    assert workload.merges > 0
    assert workload.removed > 0
    assert workload.checkpoints > 3
    assert workload.driver.store.maintenance.take_problems() == []
    return workload.call_count


def cases(
    name: str, capsys: pytest.CaptureFixture[str]
) -> Iterator[tuple[int, int, random.Random]]:
    """Yield (seed, n, generator) for every call, or a sample of them."""
    rng = random.Random(f"{SEED} {name}")
    every = [
        (seed, n)
        for seed in range(SEED, SEED + SEEDS)
        for n in range(1, call_count(seed) + 1)
    ]
    chosen = every if len(every) <= CASES else rng.sample(every, CASES)
    say(capsys, f"{name}: {len(chosen)} of {len(every)} cases")
    for seed, n in chosen:
        yield seed, n, random.Random(seed * 100_003 + n)


def say(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{text}, AMQPD_SEED={SEED} ")


@pytest.mark.parametrize("is_clean", [True, False])
def test_merges_go_on_after_a_start(is_clean: bool) -> None:
    workload = Workload(SEED)
    workload.driver.open()
    for _ in range(5):
        before = workload.merges
        workload.run()
        assert workload.merges > before
        if is_clean:
            workload.driver.stop()
        workload.driver.filesystem.power_cut(False)
        workload.driver.reopen()
        assert len(workload.driver.filesystem.list_directory(LOG)) < 60


def test_a_stop_while_a_step_is_out_leaves_the_rest_to_the_next_start() -> None:
    """The disk takes too long, and nobody waits for it any more."""
    for count in range(30):
        workload = Workload(SEED + count)
        driver = workload.driver
        driver.open()
        workload.run(10 + count // 3)
        step = None
        while step is None:
            driver.now_ms += 100
            driver.append(min(driver.queues))
            driver.sync()
            step = driver.store.begin_maintenance(driver.now_ms)
        if count % 2:
            step.run()

        driver.stop()

        driver.filesystem.restart()
        driver.reopen()
        workload.go_on()


@pytest.mark.parametrize("keeps", ["all", "nothing", "some"])
def test_a_power_cut_at_any_call_of_the_maintenance_loses_nothing(
    keeps: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cuts = 0
    for seed, n, rng in cases(f"power cut in maintenance keeping {keeps}", capsys):
        workload = Workload(seed)
        driver = workload.driver
        driver.open()
        workload.fault = Fault(n)
        with pytest.raises(PowerCut):
            workload.run()
        cuts += 1
        driver.filesystem.power_cut(rng if keeps == "some" else keeps == "all")
        driver.reopen()
        workload.go_on()
        driver.filesystem.power_cut(rng)
        driver.reopen()
    assert cuts > 0


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_call_of_the_maintenance_that_fails_costs_nothing_but_time(
    code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    problems = 0
    name = f"maintenance fails with {errno.errorcode[code]}"
    for seed, n, rng in cases(name, capsys):
        workload = Workload(seed)
        driver = workload.driver
        driver.open()
        workload.fault = Fault(n, code)
        workload.run()
        problems += len(driver.store.maintenance.take_problems())
        workload.go_on()
        if rng.random() < 0.5:
            driver.stop()
            driver.filesystem.restart()
        else:
            driver.filesystem.power_cut(rng)
        driver.reopen()
        workload.go_on()
    assert problems > 0


def test_a_kill_at_any_call_of_the_maintenance_loses_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for seed, n, rng in cases("kill in maintenance", capsys):
        workload = Workload(seed)
        driver = workload.driver
        driver.open()
        workload.fault = Fault(n)
        with pytest.raises(PowerCut):
            workload.run()
        driver.filesystem.restart()
        driver.reopen()
        workload.go_on()
        # What the first start read may never have reached the disk.
        driver.filesystem.power_cut(rng)
        driver.reopen()


def test_a_newest_checkpoint_that_is_damaged_costs_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What was removed and merged was older than the other one, too."""
    damaged = 0
    for seed, n, rng in cases("damaged checkpoint", capsys):
        workload = Workload(seed)
        driver = workload.driver
        filesystem = driver.filesystem
        driver.open()
        workload.fault = Fault(n)
        with pytest.raises(PowerCut):
            workload.run()
        filesystem.power_cut(rng)
        names = sorted(
            name
            for name in filesystem.list_directory(LOG)
            if name.startswith("checkpoint.") and not name.endswith(".tmp")
        )
        if len(names) > 1:
            path = f"{LOG}/{names[-1]}"
            filesystem.damage(path, rng.randrange(filesystem.size(path)))
            damaged += 1
        driver.reopen()
        workload.go_on()
        filesystem.power_cut(rng)
        driver.reopen()
    assert damaged > 0


def test_a_disk_that_fills_up_while_it_is_merged_loses_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    refused = 0
    rng = random.Random(SEED)
    count = 60 if IS_FULL else 8
    for seed in range(SEED, SEED + count):
        workload = Workload(seed)
        driver = workload.driver
        driver.open()
        workload.run(20)
        driver.filesystem.capacity = driver.filesystem.used() + rng.randrange(3000)
        workload.run(20)
        refused += len(driver.refused)
        driver.filesystem.capacity = 1 << 40
        while driver.is_disk_full:
            driver.tick()
        driver.tick()
        workload.go_on()
        driver.filesystem.power_cut(rng)
        driver.reopen()
    say(capsys, f"full disks: {count}, refused {refused}")
    assert refused > 0
