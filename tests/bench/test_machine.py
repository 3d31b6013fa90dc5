"""What is read off the machine, and on which core something runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.bench.machine import CORES, core_wait_seconds, pinned


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


def test_waiting_for_a_core_is_summed_over_the_threads_of_all_processes(
    tmp_path: Path,
) -> None:
    for thread, waited in (("7/task/7", 1_500_000_000), ("7/task/8", 500_000_000)):
        (tmp_path / thread).mkdir(parents=True)
        (tmp_path / thread / "schedstat").write_text(f"99 {waited} 3\n")
    (tmp_path / "9/task/9").mkdir(parents=True)
    (tmp_path / "9/task/9/schedstat").write_text("99 1000000000 3\n")
    assert core_wait_seconds([7], tmp_path) == 2.0
    assert core_wait_seconds([7, 9, 11], tmp_path) == 3.0
