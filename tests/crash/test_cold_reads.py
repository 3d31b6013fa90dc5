"""Messages that left memory are read back while calls fail and files are damaged.

What is read is compared with what was appended, message by message: nothing that can
be read is missing, nothing comes twice or out of order, and what cannot be read is
reported. Cases that are drawn come from a seed that is printed.
"""

import errno
import os
import random
import sys
from typing import Final

import pytest

from store.cold_store import ReadResult
from store.segment_index import index_path
from tests.support.cold_log import QUARANTINE, ColdLog, seqs_of
from tests.support.memory_filesystem import Fault, MemoryFileSystem, PowerCut
from tests.support.store_driver import StoreDriver

IS_FULL: Final = os.environ.get("AMQPD_FULL") == "1"
SEED: Final = int(os.environ.get("AMQPD_SEED", "20251"))
QUEUES: Final = (1, 2, 3)


def say(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{text}, AMQPD_SEED={SEED} ")


def some_log(seed: int) -> ColdLog:
    """Write three sealed segments and one that is not, of messages of any size."""
    rng = random.Random(seed)
    log = ColdLog()
    for number in range(4):
        for _ in range(rng.randrange(1, 4)):
            for _ in range(rng.randrange(1, 8)):
                queues = rng.sample(QUEUES, rng.randrange(1, 4))
                size = rng.choice((0, 10, 500, 5000))
                body = rng.choice((None, None, b"", rng.randbytes(300)))
                log.append(*queues, content=rng.randbytes(size), body=body)
                if rng.random() < 0.2:
                    log.skip(queues[0], rng.randrange(1, 20))
            if rng.random() < 0.3:
                log.append(1, body=rng.randbytes(300_000))
            log.write()
        if number < 2:
            log.seal()
        elif number == 2:
            log.roll()
    for queue_id in QUEUES:
        live = log.live(queue_id)
        log.settle(queue_id, *rng.sample(live, len(live) // 3))
    return log


def read_on(log: ColdLog, queue_id: int, window: int) -> list[int]:
    """Read a queue to its end, again after every error; nothing may be damaged."""
    seqs: list[int] = []
    next_seq, is_end, errors = 1, False, 0
    while not is_end:
        result = log.read(queue_id, next_seq, count=window)
        assert result.damaged == []
        log.check(queue_id, result.messages)
        if result.error is not None:
            assert isinstance(result.error, OSError)
            assert result.messages == []
            assert result.next_seq == next_seq
            errors += 1
            assert errors < 3
        seqs += seqs_of(result.messages)
        next_seq, is_end = result.next_seq, result.is_end
    return seqs


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOENT])
def test_whichever_call_fails_everything_is_read_in_the_end(
    code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    count = 0
    for seed in range(SEED, SEED + (40 if IS_FULL else 6)):
        n = 0
        happened = True
        while happened:
            n += 1
            log = some_log(seed)
            window = 1 + n % 7
            if n % 2:
                log.filesystem.remove(index_path(log.path(1)))
            fault = Fault(n, code)
            log.filesystem.fault = fault
            for queue_id in QUEUES:
                assert read_on(log, queue_id, window) == log.live(queue_id)
            happened = fault.call <= 0
            count += happened
    say(capsys, f"calls of cold reads that failed: {count}")
    assert count > 100


def test_whenever_the_power_goes_while_an_index_is_made_again_it_is_made_in_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    count = 0
    for seed in range(SEED, SEED + (40 if IS_FULL else 6)):
        log = some_log(seed)
        path = index_path(log.path(1))
        whole = bytes(log.filesystem.content(path))
        for n in range(1, 40):
            rng = random.Random(seed * 1000 + n)
            log.filesystem.damage(path, rng.randrange(len(whole)))
            log.filesystem.fault = Fault(n, bytes_done=rng.randrange(len(whole)))
            try:
                log.read_all(1)
            except PowerCut:
                count += 1
            log.filesystem.power_cut(rng.choice((True, False, rng)))
            log.forget_caches()
            for queue_id in QUEUES:
                assert read_on(log, queue_id, 5) == log.live(queue_id)
            if bytes(log.filesystem.content(path)) != whole:
                log.put_index(1, whole)
    say(capsys, f"power cuts while indexes are made again: {count}")
    assert count > 20


def test_damage_anywhere_in_an_index_costs_no_message(
    capsys: pytest.CaptureFixture[str],
) -> None:
    count = 0
    log = some_log(SEED)
    for number in (1, 2):
        path = index_path(log.path(number))
        whole = bytes(log.filesystem.content(path))
        for at in range(0, len(whole), 1 if IS_FULL else 5):
            log.filesystem.damage(path, at)
            log.forget_caches()
            for queue_id in QUEUES:
                assert read_on(log, queue_id, 50) == log.live(queue_id)
            log.read_deadlines()
            assert bytes(log.filesystem.content(path)) == whole
            count += 1
    say(capsys, f"damaged bytes of indexes: {count}")


def read_past_damage(log: ColdLog, queue_id: int, window: int) -> ReadResult:
    """Read a queue to its end; return all of it as one result."""
    whole = log.read(queue_id, count=window)
    while not whole.is_end:
        result = log.read(queue_id, whole.next_seq, count=window)
        assert result.error is None
        whole.messages += result.messages
        whole.damaged += result.damaged
        whole.next_seq, whole.is_end = result.next_seq, result.is_end
    return whole


def test_damage_anywhere_in_a_segment_costs_the_messages_it_lies_in_and_no_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rng = random.Random(SEED)
    log = some_log(SEED)
    count = hits = 0
    for number in (1, 2, 3, 4):
        size = len(log.filesystem.content(log.path(number)))
        for at in rng.sample(range(size), min(size, 3000 if IS_FULL else 40)):
            log.filesystem.damage(log.path(number), at)
            log.forget_caches()
            for queue_id in QUEUES:
                lost = [
                    seq
                    for seq in log.live(queue_id)
                    if is_in(log.places[queue_id, seq], number, at)
                ]
                result = read_past_damage(log, queue_id, rng.randrange(1, 9))
                log.check(queue_id, result.messages)
                live = [seq for seq in log.live(queue_id) if seq not in lost]
                assert seqs_of(result.messages) == live
                assert [damage.seq for damage in result.damaged] == lost
                hits += len(lost)
                for damage in result.damaged:
                    assert f"saved as {QUARANTINE}/" in damage.report
            log.filesystem.damage(log.path(number), at)
            count += 1
    say(capsys, f"damaged bytes of segments: {count}, {hits} of them in live messages")
    assert hits > 0


def is_in(place: tuple[int, int, int], number: int, at: int) -> bool:
    segment, offset, size = place
    return segment == number and offset <= at < offset + size


def test_whichever_call_of_a_quarantine_fails_nobody_stops_reading() -> None:
    for n in range(1, 12):
        log = some_log(SEED)
        (segment, offset, _) = log.places[1, log.live(1)[0]]
        log.filesystem.damage(log.path(segment), offset + 13)
        log.read(1, count=1)
        log.forget_caches()
        log.filesystem.fault = Fault(n, errno.ENOSPC)
        result = log.read(1)
        if result.error is not None:
            result = log.read(1)
        assert result.damaged[0].seq == log.live(1)[0]
        assert seqs_of(result.messages) == log.live(1)[1:]


def test_a_thousand_queues_of_one_log_are_read_at_once() -> None:
    """Interleaved, drained together: files and bytes read stay bounded."""
    rng = random.Random(SEED)
    queues = range(1, 1001)
    log = ColdLog()
    for turn in range(10):
        for queue_id in rng.sample(queues, len(queues)):
            log.append(queue_id, content=rng.randbytes(100))
        log.write()
        if turn % 3 == 2:
            log.seal()
    size = sum(len(log.filesystem.content(log.path(n))) for n in (1, 2, 3, 4))
    next_seqs = dict.fromkeys(queues, 1)
    while next_seqs:
        for queue_id in rng.sample(sorted(next_seqs), len(next_seqs)):
            first = next_seqs[queue_id]
            result = log.read(queue_id, first, last=10, count=3)
            assert seqs_of(result.messages) == list(range(first, result.next_seq))
            assert 0 < len(result.messages) <= 3
            log.check(queue_id, result.messages)
            next_seqs[queue_id] = result.next_seq
            if result.next_seq == 11:
                del next_seqs[queue_id]
    assert log.statistics.cold_bytes <= 3 * size


def act(driver: StoreDriver, rng: random.Random) -> None:
    """Append, write, settle, merge, or read something back."""
    queue_id = rng.choice(sorted(driver.queues))
    what = rng.random()
    if what < 0.4:
        for _ in range(rng.randrange(1, 12)):
            queues = rng.sample(sorted(driver.queues), rng.randrange(1, 4))
            driver.append(*queues, size=rng.choice((10, 200, 1500)))
    elif what < 0.55:
        driver.tick()
    elif what < 0.65:
        live = driver.live(queue_id)
        for key in rng.sample(live, len(live) * 3 // 4):
            driver.settle(key)
    elif what < 0.7:
        driver.settle_cold(queue_id, rng.randrange(1, 20))
    elif what < 0.8:
        driver.maintain()
    else:
        read_somewhere(driver, queue_id, rng)


def read_somewhere(driver: StoreDriver, queue_id: int, rng: random.Random) -> None:
    """Read a window of what is cold; what happens meanwhile must not harm it."""
    cold = driver.cold(queue_id)
    if not cold:
        return
    first = rng.choice(cold)[1]
    settled = {
        seq
        for (owner, seq), entry in driver.entries.items()
        if owner == queue_id and entry.is_settled
    }
    step = driver.store.begin_read(queue_id, first, cold[-1][1], 6, 3000)
    for _ in range(rng.choice((0, 0, 3, 30))):
        driver.now_ms += 100
        driver.maintain()
    driver.tick()
    step.run()
    result = driver.store.complete_read(step)
    if result.error is not None:
        assert result.messages == []
        return
    assert result.damaged == []
    expected = [seq for _, seq in cold if first <= seq < result.next_seq]
    # Settled, and not durably so when the read was planned: that may come.
    found = [seq for seq in seqs_of(result.messages) if seq not in settled]
    assert found == expected
    assert seqs_of(result.messages) == sorted(seqs_of(result.messages))
    for message in result.messages:
        assert message.content == driver.entries[queue_id, message.seq].content


@pytest.mark.parametrize("fails", [False, True])
def test_whatever_else_goes_on_what_left_memory_is_read_back(
    fails: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    loads = merges = 0
    for seed in range(SEED, SEED + (200 if IS_FULL else 20)):
        rng = random.Random(seed)
        driver = StoreDriver(MemoryFileSystem())
        driver.open()
        for _ in range(150):
            if fails:
                only = rng.choice(("read", "open_for_reading"))
                driver.filesystem.fault = Fault(rng.randrange(1, 30), errno.EIO, only)
            act(driver, rng)
        driver.filesystem.fault = None
        driver.sync()
        for queue_id in sorted(driver.queues):
            driver.check_cold(queue_id)
        loads += driver.store.statistics.cold_loads
        merges += driver.store.statistics.merges
        driver.stop()
    say(capsys, f"cold reads while others go on: {loads}, merges: {merges}")
    assert loads > 0
