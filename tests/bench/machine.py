"""What a figure was measured on, and who else was busy meanwhile.

A rate says little without the machine, and on a shared machine it says little even
then. So every run carries the facts of the machine, and every figure carries how much
of it was used by somebody who belongs neither to the broker nor to the generator.

It knows Linux's /proc and nothing of brokers.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

CLOCK_TICKS: Final = os.sysconf("SC_CLK_TCK")
#: Fields of /proc/stat's "cpu" line in which a core did nothing.
IDLE_FIELDS: Final = (3, 4)
#: Guest time is counted in user time already.
GUEST_FIELD_FIRST: Final = 8
#: The unit of st_blocks, whatever the file system's own blocks are.
BLOCK_SIZE: Final = 512
MEMORY_FILE_SYSTEMS: Final = ("tmpfs", "ramfs")
#: The cores that this process may use, before it keeps to one of them.
CORES: Final = frozenset(os.sched_getaffinity(0))


def facts() -> dict[str, str]:
    """Return what anyone needs to know who compares figures."""
    return {
        "cpu": _cpu_model(),
        "cores": str(len(CORES)),
        "memory": f"{_memory_gib():.0f} GiB",
        "kernel": platform.release(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gib() -> float:
    pages = os.sysconf("SC_PHYS_PAGES")
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 30)


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Run this thread, and what it starts meanwhile, on one core only.

    A core that is not there (or None) pins nothing: the figures are then what they are.
    A thread that is pinned already may start something on another core.
    """
    before = os.sched_getaffinity(0)
    if core in CORES:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def file_system_type(directory: Path) -> str:
    """Return the type of the file system that a directory lies on."""
    best, kind = "", "unknown"
    real = str(directory.resolve())
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        _, mount, found, *_ = line.split()
        inside = real == mount or real.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, found
    return kind


def disk_directory(preferred: Path | None) -> Path:
    """Return where data directories go: a real disk, if there is one to be found."""
    places = [preferred] if preferred else [Path("/var/tmp"), Path.cwd(), Path("/tmp")]
    for place in places:
        usable = place.is_dir() and os.access(place, os.W_OK)
        if usable and file_system_type(place) not in MEMORY_FILE_SYSTEMS:
            return place
    return places[-1]


def cpu_seconds_of(pids: Sequence[int]) -> float:
    """Return the CPU time that processes (not their children) have used so far.

    One that has ended counts nothing: it is in the children's time of who waited.
    """
    total = 0
    for pid in pids:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        except FileNotFoundError:
            continue
        fields = stat.rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / CLOCK_TICKS


def core_wait_seconds(pids: Sequence[int], proc: Path = Path("/proc")) -> float:
    """Return how long living threads of processes were ready to run, and did not.

    Somebody else had their core: no figure of latency is the broker's alone then.
    """
    nanoseconds = 0
    for pid in pids:
        for path in proc.glob(f"{pid}/task/*/schedstat"):
            try:
                nanoseconds += int(path.read_text(encoding="utf-8").split()[1])
            except OSError:
                # The thread has ended.
                continue
    return nanoseconds / 1e9


def resident_mb(pid: int, field: str = "VmRSS") -> float:
    """Return the resident memory of a process; VmHWM is the highest it was."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    for line in status.splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise LookupError(f"process {pid} has no {field}")


def reset_highest_resident(pid: int) -> None:
    """Let VmHWM begin again from what is resident now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="utf-8")


def file_read_mb(pid: int) -> float:
    """Return what a process has read from files so far, the page cache included."""
    return _io_mb(Path(f"/proc/{pid}/io"), "rchar")


def file_written_mb_by_thread(pid: int) -> dict[int, float]:
    """Return what each living thread of a process has written to files so far."""
    written: dict[int, float] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        written[int(task.name)] = _io_mb(task / "io", "wchar")
    return written


def _io_mb(path: Path, field: str) -> float:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1e6
    raise LookupError(f"{path} has no {field}")


def descriptor_count(pid: int) -> int:
    """Return how many descriptors a process has open, sockets included."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def directory_mb(directory: Path) -> float:
    """Return what the files of a directory take on the disk; some may go meanwhile."""
    blocks = 0
    for path in directory.iterdir():
        try:
            blocks += path.stat().st_blocks
        except FileNotFoundError:
            continue
    return blocks * BLOCK_SIZE / 1e6


class Strangers:
    """How much of the machine others used between two moments."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._started = time.monotonic()
        self._idle_at_start = self._others_seconds()

    def cores_used(self) -> float:
        """Return the cores that were busy with something else, on average."""
        seconds = self._others_seconds() - self._idle_at_start
        return max(0.0, seconds / (time.monotonic() - self._started))

    def _others_seconds(self) -> float:
        line = Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0]
        fields = [int(field) for field in line.split()[1:]]
        busy = sum(fields[:GUEST_FIELD_FIRST]) - sum(fields[i] for i in IDLE_FIELDS)
        spent = os.times()
        ours = spent.user + spent.system + spent.children_user + spent.children_system
        return busy / CLOCK_TICKS - cpu_seconds_of(self._pids) - ours
