"""The power goes, or a call fails, at every call the store makes.

A workload runs on a file system in memory until the n-th call fails, tears or cuts
the power; then the store is recovered, checked against a model, used again and
interrupted again. Every test says how many cases it ran and from which seed; the
default is a sample, AMQPD_FULL=1 runs all of them.
"""

import errno
import os
import random
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from store.errors import StoreError
from tests.support.memory_filesystem import Fault, MemoryFileSystem, PowerCut
from tests.support.store_driver import StoreDriver

IS_FULL: Final = os.environ.get("AMQPD_FULL") == "1"
SEED: Final = int(os.environ.get("AMQPD_SEED", "20251"))
CASES: Final = 1_000_000 if IS_FULL else 100
ROUNDS: Final = 24


def workload(driver: StoreDriver, seed: int, rounds: int = ROUNDS) -> None:
    """Do what brokers do, in an order that depends on the seed only."""
    rng = random.Random(seed)
    for _ in range(rounds):
        if driver.is_fatal:
            return
        act(driver, rng)
    while driver.flights:
        driver.finish()


def act(driver: StoreDriver, rng: random.Random) -> None:
    """One turn: some events, then perhaps a step."""
    driver.now_ms += 30
    known = sorted(driver.queues)
    queue_id = rng.choice(known)
    for _ in range(rng.randrange(4)):
        queues = rng.choice((known[:1], known[1:2], known[:2], known))
        body = b"b" * rng.randrange(900) if rng.random() < 0.2 else None
        driver.append(*queues, size=rng.choice((10, 40, 700)), body=body)
    live = driver.live(queue_id)
    what = rng.random()
    if what < 0.04 and driver.highest_queue_id < 30:
        driver.forget(queue_id)
        driver.highest_queue_id += 1
        driver.queues.add(driver.highest_queue_id)
    elif what < 0.5:
        for key in live[: rng.randrange(len(live) + 1)]:
            driver.settle(key)
    elif what < 0.6:
        driver.settle_cold(queue_id, rng.randrange(1, 20))
    elif what < 0.75:
        driver.deliver(queue_id)
    elif live:
        driver.deliver(queue_id)
        driver.give_back(rng.choice(live), rng.randrange(1, 4))
    if rng.random() < 0.2:
        driver.check_cold(queue_id)
    step(driver, rng)
    for _ in range(rng.randrange(4)):
        driver.maintain()


def step(driver: StoreDriver, rng: random.Random) -> None:
    """Begin nothing, a write or a sync; finish some of what was begun."""
    what = rng.random()
    if what < 0.6:
        driver.wait()
        driver.begin(True)
    elif what < 0.8:
        driver.begin(False)
    while driver.flights and rng.random() < 0.7:
        driver.finish()
        if driver.is_fatal:
            return


def run_until_fault(driver: StoreDriver, seed: int, fault: Fault) -> bool:
    """Open, work, stop at the fault; return whether it happened."""
    filesystem = driver.filesystem
    filesystem.fault = fault
    try:
        driver.check(driver.open())
        workload(driver, seed)
    except PowerCut:
        return True
    except StoreError:
        # The disk failed while it was recovered: nothing was served.
        return True
    return fault.call <= 0


def call_count(seed: int) -> int:
    """Return how many calls the workload makes when nothing goes wrong."""
    driver = StoreDriver(MemoryFileSystem())
    driver.open()
    workload(driver, seed)
    return len(driver.filesystem.calls)


def say(capsys: pytest.CaptureFixture[str], text: str) -> None:
    """Print what was run, on every run: a sample is only as good as its size."""
    with capsys.disabled():
        sys.stdout.write(f"\n{text}, AMQPD_SEED={SEED} ")


def cases(
    name: str, capsys: pytest.CaptureFixture[str]
) -> Iterator[tuple[int, int, random.Random]]:
    """Yield (workload seed, n, generator) for every n, or a sample of them."""
    rng = random.Random(f"{SEED} {name}")
    every = [
        (seed, n)
        for seed in range(SEED, SEED + (20 if IS_FULL else 6))
        for n in range(1, call_count(seed) + 1)
    ]
    chosen = every if len(every) <= CASES else rng.sample(every, CASES)
    say(capsys, f"{name}: {len(chosen)} of {len(every)} cases")
    for seed, n in chosen:
        yield seed, n, random.Random(seed * 100_003 + n)


def stop_somehow(driver: StoreDriver, rng: random.Random) -> None:
    """Cut the power, or kill the process and leave the page cache as it is."""
    what = rng.randrange(4)
    if what == 0:
        driver.filesystem.restart()
    else:
        driver.filesystem.power_cut((True, False, rng)[what - 1])
    driver.crash()


def serve_and_crash_again(driver: StoreDriver, rng: random.Random) -> None:
    """Recover, be interrupted while recovering or serving, and recover again."""
    stop_somehow(driver, rng)
    run_until_fault(driver, rng.randrange(1000), Fault(rng.randrange(1, 60)))
    stop_somehow(driver, rng)
    driver.reopen()
    driver.append(*sorted(driver.queues)[:2])
    driver.sync()
    driver.filesystem.power_cut(False)
    driver.reopen()


@pytest.mark.parametrize("keeps", ["all", "nothing", "some"])
def test_a_power_cut_at_any_call_loses_nothing_confirmed(
    keeps: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, n, rng in cases(f"power cut keeping {keeps}", capsys):
        driver = StoreDriver(MemoryFileSystem())
        run_until_fault(driver, seed, Fault(n))
        choice: random.Random | bool = rng
        if keeps != "some":
            choice = keeps == "all"
        driver.filesystem.power_cut(choice)
        driver.reopen()
        serve_and_crash_again(driver, rng)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("call", ["write", "allocate", "create", "truncate", "remove"])
def test_a_call_that_fails_loses_nothing_confirmed(
    code: int, call: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, n, rng in cases(f"{call} fails with {errno.errorcode[code]}", capsys):
        driver = StoreDriver(MemoryFileSystem())
        fault = Fault(n // 4 + 1, code, call, rng.randrange(300))
        run_until_fault(driver, seed, fault)
        if rng.random() < 0.5:
            driver.filesystem.restart()
        else:
            stop_somehow(driver, rng)
        driver.reopen()
        serve_and_crash_again(driver, rng)


@pytest.mark.parametrize("call", ["sync", "sync_directory"])
def test_a_failed_sync_confirms_nothing_and_a_restart_reads_clean_pages(
    call: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, n, rng in cases(f"{call} fails", capsys):
        driver = StoreDriver(MemoryFileSystem())
        fault = Fault(n // 3 + 1, errno.EIO, call)
        happened = run_until_fault(driver, seed, fault)
        confirmed = list(driver.confirmed)
        if driver.is_fatal:
            assert happened
            # Nothing after it is begun, hence nothing confirmed.
            assert driver.store.begin(True, driver.now_ms) is None
            assert driver.confirmed == confirmed
        # The process starts again and reads pages that never reached the disk ...
        driver.filesystem.restart()
        driver.reopen()
        workload(driver, seed + 1, rounds=5)
        # ... and then the power goes: what was served from them must be there.
        driver.filesystem.power_cut(rng.choice((False, rng)))
        driver.reopen()
        serve_and_crash_again(driver, rng)


def test_the_last_write_torn_at_any_byte_is_a_torn_tail(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rng = random.Random(SEED)
    torn = 0
    sizes = range(0, 900, 1 if IS_FULL else 29)
    for seed in range(SEED, SEED + (40 if IS_FULL else 4)):
        for size in sizes:
            driver = StoreDriver(MemoryFileSystem())
            fault = Fault(rng.randrange(3, 14), None, "write", size)
            run_until_fault(driver, seed, fault)
            driver.filesystem.power_cut(True)
            opened = driver.reopen()
            torn += opened.report.torn_size > 0
            assert opened.report.quarantined == []
            serve_and_crash_again(driver, rng)
    say(capsys, f"torn writes: {torn} torn tails")
    assert torn > 0


def test_a_power_cut_at_any_call_of_a_recovery_loses_nothing_confirmed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Recovery itself is interrupted, again and again, at every call it makes."""
    count = 0
    for seed in range(SEED, SEED + (60 if IS_FULL else 5)):
        rng = random.Random(seed)
        driver = StoreDriver(MemoryFileSystem())
        run_until_fault(driver, seed, Fault(rng.randrange(40, 90)))
        driver.filesystem.power_cut(rng)
        for n in range(1, 40):
            driver.filesystem.fault = Fault(n)
            driver.crash()
            try:
                driver.open()
            except PowerCut:
                count += 1
            stop_somehow(driver, rng)
        driver.reopen()
        serve_and_crash_again(driver, rng)
    say(capsys, f"interrupted recoveries: {count}")
    assert count > 0
