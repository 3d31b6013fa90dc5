"""How much memory there is: the machine's, or less if a control group says so."""

from __future__ import annotations

from pathlib import Path

from amqpd.machine_memory import machine_size, memory_limit

GIB = 1 << 30


def limit_of(directory: Path, membership: str) -> int:
    listed = directory / "cgroup"
    listed.write_text(membership)
    return memory_limit(8 * GIB, directory, listed)


def set_limit(directory: Path, group: str, text: str, name: str = "memory.max") -> None:
    (directory / group).mkdir(parents=True, exist_ok=True)
    (directory / group / name).write_text(text + "\n")


def test_without_control_groups_it_is_the_machine(tmp_path: Path) -> None:
    assert memory_limit(GIB, tmp_path / "none", tmp_path / "none") == GIB
    assert limit_of(tmp_path, "0::/\n") == 8 * GIB


def test_a_limit_of_the_group_counts(tmp_path: Path) -> None:
    set_limit(tmp_path, "a/b", str(2 * GIB))
    assert limit_of(tmp_path, "0::/a/b\n") == 2 * GIB


def test_the_least_limit_on_the_way_to_the_top_counts(tmp_path: Path) -> None:
    set_limit(tmp_path, "a/b", str(2 * GIB))
    set_limit(tmp_path, "a", str(GIB))
    set_limit(tmp_path, ".", "max")
    assert limit_of(tmp_path, "0::/a/b\n") == GIB


def test_a_group_that_may_use_everything_has_no_limit(tmp_path: Path) -> None:
    set_limit(tmp_path, "a", "max")
    assert limit_of(tmp_path, "0::/a\n") == 8 * GIB


def test_a_limit_above_the_machine_is_none(tmp_path: Path) -> None:
    set_limit(tmp_path, "a", str(16 * GIB))
    assert limit_of(tmp_path, "0::/a\n") == 8 * GIB


def test_groups_of_the_first_version_count_too(tmp_path: Path) -> None:
    set_limit(tmp_path, "memory/a", str(GIB), "memory.limit_in_bytes")
    assert limit_of(tmp_path, "3:cpu:/a\n2:memory:/a\n") == GIB


def test_where_the_path_is_that_of_the_host_the_top_counts(tmp_path: Path) -> None:
    set_limit(tmp_path, ".", str(GIB))
    assert limit_of(tmp_path, "0::/docker/0123/../x\n") == GIB


def test_the_machine_has_memory() -> None:
    assert machine_size() > 1 << 24
