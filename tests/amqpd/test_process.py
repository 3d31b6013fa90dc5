"""What the system says of this process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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


def enlarged(limit: int) -> tuple[list[int], list[int]]:
    """Enlarge the table in a new process that may have so many descriptors.

    Returns what the table has room for, and how many are open, before and after.
    """
    code = (
        "import resource\n"
        "from pathlib import Path\n"
        "from amqpd.process import enlarge_descriptor_table, open_descriptors\n"
        "def tell():\n"
        "    status = Path('/proc/self/status').read_text()\n"
        "    room = status.partition('FDSize:')[2].split()[0]\n"
        "    print(room, open_descriptors())\n"
        "tell()\n"
        "given = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, given[1]))\n"
        "enlarge_descriptor_table()\n"
        "enlarge_descriptor_table()\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, given)\n"
        "tell()\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    told = [int(word) for word in run.stdout.split()]
    return told[::2], told[1::2]


@pytest.mark.parametrize("limit", [512, 1024])
def test_the_table_of_descriptors_has_room_for_as_many_as_may_be_open(
    limit: int,
) -> None:
    rooms, opened = enlarged(limit)
    assert rooms[1] == max(limit, rooms[0])
    assert opened[0] == opened[1]


def test_a_table_of_descriptors_that_cannot_be_enlarged_stays_as_it_is() -> None:
    # Not even the one descriptor that this takes.
    rooms, opened = enlarged(3)
    assert rooms[0] == rooms[1]
    assert opened[0] == opened[1]
