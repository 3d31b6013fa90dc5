"""A repair that is interrupted, at every call, can be begun again and loses nothing."""

import errno
import random

import pytest

from store import batch
from store.errors import StoreError
from store.segment import HEADER_SIZE
from store.segment_index import index_path
from tests.support.log_tools import damages, repair
from tests.support.memory_filesystem import Fault, PowerCut
from tests.support.written_log import LOG, WrittenLog, live_seqs

FIRST = f"{LOG}/00000001.seg"
FIRST_RECORD = HEADER_SIZE + batch.HEADER_SIZE


def damaged_log() -> WrittenLog:
    """Four segments, two checkpoints, and something of everything damaged."""
    log = WrittenLog()
    for number in range(1, 5):
        log.messages(1, number * 10, number * 10 + 1)
        log.messages(2, number)
        log.settle(1, number * 10)
        if number > 2:
            log.checkpoint()
        if number < 4:
            log.seal()
    log.filesystem.damage(FIRST, FIRST_RECORD + 60)
    log.filesystem.damage(index_path(log.path_of(2)), 70)
    log.filesystem.damage(f"{LOG}/checkpoint.00000001", 150)
    log.put(f"{LOG}/notes.txt", b"remember the milk")
    log.filesystem.sync_directory(LOG)
    return log


def check(log: WrittenLog) -> None:
    """Repair again if need be; everything that was live is there."""
    log.filesystem.restart()
    if damages(log):
        repair(log)
    assert damages(log) == []
    log.filesystem.restart()
    recovered = log.recover()
    for queue_id in (1, 2):
        assert set(live_seqs(recovered, queue_id)) == log.live[queue_id]


def calls_of_a_repair() -> int:
    log = damaged_log()
    log.filesystem.calls.clear()
    repair(log)
    return len(log.filesystem.calls)


def test_a_repair_that_the_power_interrupts_is_begun_again() -> None:
    """At every call; what was not synced is lost, kept, or some of it."""
    for call in range(1, calls_of_a_repair() + 1):
        for choice in (False, random.Random(call)):
            log = damaged_log()
            log.filesystem.fault = Fault(call)
            with pytest.raises(PowerCut):
                repair(log)
            log.filesystem.power_cut(choice)
            check(log)


def test_a_repair_that_the_disk_refuses_says_so_and_can_be_begun_again() -> None:
    for call in range(1, calls_of_a_repair() + 1):
        log = damaged_log()
        log.filesystem.fault = Fault(call, errno.EIO)
        try:
            repair(log)
        except (OSError, StoreError):
            pass
        check(log)
