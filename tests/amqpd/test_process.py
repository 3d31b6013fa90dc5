"""What the system says of this process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from amqpd.process import (
    descriptors_max,
    free_space,
    give_back_memory,
    open_descriptors,
    resident_size,
)

MIB = 1 << 20


def test_this_process_is_of_some_size() -> None:
    before = resident_size()
    ballast = bytearray(64 * MIB)
    ballast[::4096] = b"x" * len(ballast[::4096])
    assert resident_size() - before > 32 * MIB


def test_there_is_room_where_tests_run(tmp_path: Path) -> None:
    assert free_space(tmp_path) > 0


def test_an_open_file_is_a_descriptor(tmp_path: Path) -> None:
    before = open_descriptors()
    with (tmp_path / "file").open("w"):
        assert open_descriptors() == before + 1
    assert before < descriptors_max()


def test_giving_memory_back_takes_nothing_away() -> None:
    kept = [bytes(1000) for _ in range(1000)]
    give_back_memory()
    assert len(kept) == 1000


def test_large_blocks_that_are_freed_are_given_back_at_once() -> None:
    code = (
        "from amqpd.process import keep_little_memory, resident_size\n"
        "keep_little_memory()\n"
        "size = 5 << 20\n"
        "bytearray(2 * size)\n"
        "before = resident_size()\n"
        "blocks = [bytearray(b'x') * size for _ in range(20)]\n"
        "last = blocks.pop()\n"
        "blocks.clear()\n"
        "assert resident_size() - before < 2 * size\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
