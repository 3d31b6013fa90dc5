"""The operating system's files: what each call promises, tried on a real disk."""

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from store import filesystem
from store.filesystem import FileSystem, OsFileSystem
from tests.support.memory_filesystem import MemoryFileSystem


def both(tmp_path: Path, kind: str) -> tuple[FileSystem, str]:
    """The real one and the one in memory behave alike."""
    files: FileSystem = OsFileSystem() if kind == "os" else MemoryFileSystem()
    return files, str(tmp_path)


KINDS = pytest.mark.parametrize("kind", ["os", "memory"])


@KINDS
def test_what_is_written_is_read(tmp_path: Path, kind: str) -> None:
    filesystem, directory = both(tmp_path, kind)
    path = f"{directory}/file"
    descriptor = filesystem.create(path)
    filesystem.write(descriptor, [b"ab", b"", b"cd"], 3)
    filesystem.sync(descriptor)
    filesystem.close(descriptor)
    assert filesystem.read_file(path) == b"\0\0\0abcd"
    assert filesystem.size(path) == 7
    assert filesystem.exists(path)


@KINDS
def test_more_buffers_than_one_call_takes_are_all_written(
    tmp_path: Path, kind: str
) -> None:
    filesystem, directory = both(tmp_path, kind)
    buffers = [b"%d," % i for i in range(3000)]
    descriptor = filesystem.create(f"{directory}/file")
    filesystem.write(descriptor, buffers, 0)
    assert filesystem.read_file(f"{directory}/file") == b"".join(buffers)
    filesystem.close(descriptor)


def test_a_disk_that_takes_only_a_part_says_why(tmp_path: Path) -> None:
    filesystem = OsFileSystem()
    descriptor = filesystem.create(f"{tmp_path}/file")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6, limits[1]))
    try:
        with pytest.raises(OSError) as raised:
            filesystem.write(descriptor, [b"abcd", b"efgh"], 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert raised.value.errno == errno.EFBIG
    assert filesystem.read_file(f"{tmp_path}/file") == b"abcdef"
    filesystem.close(descriptor)


@KINDS
def test_creating_replaces(tmp_path: Path, kind: str) -> None:
    filesystem, directory = both(tmp_path, kind)
    for data in (b"long", b"x"):
        descriptor = filesystem.create(f"{directory}/file")
        filesystem.write(descriptor, [data], 0)
        filesystem.close(descriptor)
    assert filesystem.read_file(f"{directory}/file") == b"x"


@KINDS
def test_allocated_blocks_read_as_zeros_and_can_be_cut(
    tmp_path: Path, kind: str
) -> None:
    filesystem, directory = both(tmp_path, kind)
    descriptor = filesystem.create(f"{directory}/file")
    filesystem.write(descriptor, [b"ab"], 0)
    filesystem.allocate(descriptor, 10)
    assert filesystem.read_file(f"{directory}/file") == b"ab" + bytes(8)
    filesystem.truncate(descriptor, 1)
    assert filesystem.read_file(f"{directory}/file") == b"a"
    filesystem.close(descriptor)


@KINDS
def test_names_are_listed_renamed_and_removed(tmp_path: Path, kind: str) -> None:
    filesystem, directory = both(tmp_path, kind)
    filesystem.make_directory(f"{directory}/a/b")
    filesystem.make_directory(f"{directory}/a/b")
    for name in ("one", "two"):
        filesystem.close(filesystem.create(f"{directory}/a/b/{name}"))
    filesystem.rename(f"{directory}/a/b/one", f"{directory}/a/b/two")
    filesystem.sync_directory(f"{directory}/a/b")
    assert filesystem.list_directory(f"{directory}/a/b") == ["two"]
    filesystem.remove(f"{directory}/a/b/two")
    filesystem.remove(f"{directory}/a/b/two")
    assert filesystem.list_directory(f"{directory}/a/b") == []


@KINDS
def test_what_is_missing_is_empty(tmp_path: Path, kind: str) -> None:
    filesystem, directory = both(tmp_path, kind)
    assert filesystem.list_directory(f"{directory}/missing") == []
    assert filesystem.size(f"{directory}/missing") == 0
    assert not filesystem.exists(f"{directory}/missing")


@KINDS
def test_a_lock_excludes_until_it_is_closed(tmp_path: Path, kind: str) -> None:
    filesystem, directory = both(tmp_path, kind)
    descriptor = filesystem.lock(f"{directory}/lock")
    with pytest.raises(BlockingIOError):
        filesystem.lock(f"{directory}/lock")
    filesystem.close(descriptor)
    filesystem.close(filesystem.lock(f"{directory}/lock"))


def test_a_write_that_is_cut_short_is_finished(tmp_path: Path) -> None:
    """At a size limit a write takes a part and then refuses, as on a full disk."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (5, 5))"
    path = tmp_path / "file"
    # In a process of its own: the limit stays. SIGXFSZ is ignored by Python.
    code = (
        f"{limit}\n"
        "from store.filesystem import OsFileSystem\n"
        "f = OsFileSystem()\n"
        f"d = f.create({str(path)!r})\n"
        "try: f.write(d, [b'abc', b'defgh'], 0)\n"
        "except OSError as exc: print(exc.errno)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(errno.EFBIG)
    assert path.read_bytes() == b"abcde"


def test_files_are_private(tmp_path: Path) -> None:
    filesystem = OsFileSystem()
    filesystem.make_directory(f"{tmp_path}/private")
    descriptor = filesystem.create(f"{tmp_path}/private/file")
    assert os.fstat(descriptor).st_mode & 0o077 == 0
    assert os.stat(f"{tmp_path}/private").st_mode & 0o077 == 0
    filesystem.close(descriptor)


def test_what_was_written_a_moment_ago_is_at_hand(tmp_path: Path) -> None:
    files = OsFileSystem()
    descriptor = files.create(f"{tmp_path}/file")
    files.write(descriptor, [bytes(300_000)], 0)
    assert files.is_at_hand(descriptor, 300_000, 0)
    # Behind the end there is nothing to wait for.
    assert files.is_at_hand(descriptor, 300_000, 299_999)
    files.close(descriptor)


def test_one_byte_that_is_not_in_memory_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far: set[int] = set()
    asked: list[int] = []

    def preadv(_descriptor: int, _buffers: object, at: int, flags: int) -> int:
        assert flags == filesystem._NO_WAIT != 0
        asked.append(at)
        if at in far:
            raise BlockingIOError
        return 1

    monkeypatch.setattr(os, "preadv", preadv)
    files = OsFileSystem()
    step = filesystem._PROBE_STEP
    assert files.is_at_hand(7, 2 * step, step)
    assert asked == [step, 2 * step, 3 * step - 1]
    for at in asked.copy():
        far = {at}
        assert not files.is_at_hand(7, 2 * step, step)


def test_where_the_system_cannot_tell_nothing_is_at_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = OsFileSystem()
    descriptor = files.create(f"{tmp_path}/file")
    files.write(descriptor, [bytes(100)], 0)
    monkeypatch.setattr(filesystem, "_NO_WAIT", 0)
    assert not files.is_at_hand(descriptor, 100, 0)
    files.close(descriptor)
