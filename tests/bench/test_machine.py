"""What is read off the machine, and on which core something runs."""

from __future__ import annotations

import os
import subprocess

from tests.bench.machine import CORES, pinned


def affinity_of_a_child() -> set[int]:
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    with process:
        return set(os.sched_getaffinity(process.pid))


def test_who_is_pinned_may_start_something_on_another_core() -> None:
    first, last = min(CORES), max(CORES)
    with pinned(first):
        assert affinity_of_a_child() == {first}
        with pinned(last):
            assert affinity_of_a_child() == {last}
        assert os.sched_getaffinity(0) == {first}
    assert os.sched_getaffinity(0) == CORES


def test_a_core_that_is_not_there_pins_nothing() -> None:
    for core in (None, max(CORES) + 1):
        with pinned(core):
            assert os.sched_getaffinity(0) == CORES
