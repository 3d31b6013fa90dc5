"""Damaged bytes are put aside durably, and once."""

from store.quarantine import damaged_file, damaged_part, save
from tests.support.memory_filesystem import MemoryFileSystem

DIRECTORY = "/data/quarantine"


def test_nothing_damaged_touches_nothing() -> None:
    filesystem = MemoryFileSystem()
    assert save(filesystem, DIRECTORY, []) == []
    assert filesystem.calls == []


def test_what_is_put_aside_survives_a_power_cut() -> None:
    filesystem = MemoryFileSystem()
    part = damaged_part(3, 4711, b"bad", "a record is damaged")
    whole = damaged_file("/data/log/checkpoint.00000012", b"bad too")
    lines = save(filesystem, DIRECTORY, [part, whole])
    filesystem.power_cut(False)
    assert filesystem.read_file(f"{DIRECTORY}/00000003-0000004711.bin") == b"bad"
    assert filesystem.read_file(f"{DIRECTORY}/checkpoint.00000012.bin") == b"bad too"
    first, second = lines
    assert first.startswith(
        "a record is damaged: 3 bytes of segment 3 from offset 4711"
    )
    assert first.endswith(f"saved as {DIRECTORY}/00000003-0000004711.bin")
    assert second.startswith("/data/log/checkpoint.00000012 is not what was written")
    assert second.endswith(f"saved as {DIRECTORY}/checkpoint.00000012.bin")


def test_what_was_put_aside_is_told_again_and_not_written_again() -> None:
    filesystem = MemoryFileSystem()
    part = damaged_part(3, 4711, b"bad", "a record is damaged")
    first = save(filesystem, DIRECTORY, [part])
    filesystem.calls = []
    assert save(filesystem, DIRECTORY, [part]) == first
    assert "write" not in filesystem.calls
