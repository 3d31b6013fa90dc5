"""Finding processes, in a /proc of files and in the real one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.bench.processes import end_marked, marked_processes, process_tree


def put(proc: Path, pid: int, parent: int, name: str, environment: bytes = b"") -> None:
    directory = proc / str(pid)
    directory.mkdir()
    (directory / "stat").write_text(
        f"{pid} ({name}) S {parent} 1 1 0", encoding="utf-8"
    )
    (directory / "environ").write_bytes(environment)


def test_a_tree_has_the_children_of_children_and_nobody_else(tmp_path: Path) -> None:
    (tmp_path / "meminfo").touch()
    put(tmp_path, 1, 0, "init")
    put(tmp_path, 10, 1, "rabbitmq-server")
    put(tmp_path, 30, 20, "inet_gethost")
    put(tmp_path, 20, 10, "beam) 1 (smp")
    put(tmp_path, 21, 10, "sh")
    put(tmp_path, 40, 1, "stranger")
    assert process_tree(10, tmp_path) == (10, 20, 21, 30)


def test_a_process_that_ends_meanwhile_is_in_no_tree(tmp_path: Path) -> None:
    put(tmp_path, 10, 1, "broker")
    (tmp_path / "11").mkdir()
    assert process_tree(10, tmp_path) == (10,)


def test_a_mark_is_a_whole_entry_of_the_environment(tmp_path: Path) -> None:
    put(tmp_path, 10, 1, "one", b"A=1\0MARK=/x\0B=2\0")
    put(tmp_path, 11, 1, "two", b"MARK=/xy\0")
    put(tmp_path, 12, 1, "three", b"ANOTHER_MARK=/x\0")
    (tmp_path / "13").mkdir()
    assert marked_processes("MARK=/x", tmp_path) == [10]


def test_marked_processes_that_stay_are_killed(tmp_path: Path) -> None:
    mark = f"AMQPD_TEST_MARK={tmp_path}"
    process = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        env=os.environ | {"AMQPD_TEST_MARK": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        assert marked_processes(mark) == [process.pid]
        end_marked(mark, 0)
        assert process.wait() < 0
    assert marked_processes(mark) == []
