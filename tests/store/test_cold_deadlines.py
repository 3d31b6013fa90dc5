"""Deadlines of messages that a start has found, read from index files."""

from __future__ import annotations

import errno
import os

import pytest
from librt.strings import BytesWriter

from store.cold_deadlines import RunDeadlines
from store.segment_index import index_path, second_of, write_deadline
from store.seq_ranges import Ranges
from tests.support.cold_log import EXPIRES_MS, ColdLog
from tests.support.memory_filesystem import Fault

Found = list[tuple[int, int, int]]


def found_in(run: RunDeadlines) -> Found:
    """Queue, seq and second of each."""
    return [
        (int(run.queue_id), int(run.seq(at)), int(run.second(at)))
        for at in range(run.count)
    ]


def survey(log: ColdLog) -> Found:
    """Read all that is left."""
    return [one for run in log.read_deadlines() for one in found_in(run)]


def sealed(segments: int = 1) -> ColdLog:
    """A log of such segments, opened again: two messages of queue 1, one of both."""
    log = ColdLog()
    for _ in range(segments):
        log.append(1)
        log.append(1, 2)
        log.write()
        log.seal()
    log.forget_caches()
    return log


def expected(*keys: tuple[int, int]) -> Found:
    return [(queue_id, seq, second_of(EXPIRES_MS)) for queue_id, seq in keys]


def test_every_message_with_a_time_of_its_own_is_found() -> None:
    log = sealed(2)
    assert log.cold.has_deadlines
    assert sorted(survey(log)) == expected(
        (1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2)
    )
    assert not log.cold.has_deadlines


def test_a_segment_that_nobody_needs_is_not_read() -> None:
    log = sealed(2)
    log.settle(1, 1, 2)
    log.settle(2, 1)
    assert sorted(survey(log)) == expected((1, 3), (1, 4), (2, 2))


@pytest.mark.parametrize("where", [9, 70, -1, -6])
def test_an_index_that_is_damaged_is_made_again(where: int) -> None:
    log = sealed()
    path = index_path(log.path(1))
    before = bytes(log.filesystem.content(path))
    log.filesystem.damage(path, where % len(before))
    assert sorted(survey(log)) == expected((1, 1), (1, 2), (2, 1))
    assert bytes(log.filesystem.content(path)) == before


def test_an_index_that_is_missing_is_made_again() -> None:
    log = sealed()
    path = index_path(log.path(1))
    before = bytes(log.filesystem.content(path))
    log.filesystem.remove(path)
    assert sorted(survey(log)) == expected((1, 1), (1, 2), (2, 1))
    assert bytes(log.filesystem.content(path)) == before


def test_a_disk_that_does_not_answer_is_asked_again() -> None:
    log = sealed()
    step = log.cold.begin_deadlines()
    assert step is not None
    log.filesystem.fault = Fault(1, errno.EIO, "read")
    step.run()
    assert isinstance(step.error, OSError)
    assert step.error.errno == errno.EIO
    assert os.strerror(errno.EIO) in str(step.error)
    log.cold.complete_deadlines(step)
    assert log.cold.has_deadlines
    assert len(survey(log)) == 3


def test_one_beyond_all_centuries_is_not_noted() -> None:
    out = BytesWriter()
    write_deadline(out, 1, (1 << 32) * 1000)
    assert out.getvalue() == b""
    write_deadline(out, 1, (1 << 32) * 1000 - 1001)
    assert out.getvalue() == b"\xff\xff\xff\xff\x00\x00\x00\x01"


def test_seqs_have_more_than_32_bits() -> None:
    first = (1 << 40) - 1
    out = BytesWriter()
    for seq in (first, first + 1):
        write_deadline(out, seq, 5000)
    run = RunDeadlines(3, first, out.getvalue())
    assert found_in(run) == [(3, first, 6), (3, first + 1, 6)]


def test_what_is_settled_is_found_too() -> None:
    log = sealed()
    log.index.queue(1).settle(Ranges([1], [1]))
    assert len(survey(log)) == 3
