"""Damaged bytes that a start found, put aside before anything else happens to them.

    quarantine/00000003-0000004711.bin    bytes of segment 3, from this offset
    quarantine/checkpoint.00000012.bin    a whole file

Nothing is ever removed from there but by hand.
"""

from typing import final

from store.filesystem import FileSystem


@final
class DamagedBytes:
    """Bytes that are not what was written."""

    __slots__ = ("data", "name", "what")

    def __init__(self, name: str, what: str, data: bytes) -> None:
        self.name = name
        self.what = what
        self.data = data


def damaged_part(segment: int, start: int, data: bytes, reason: str) -> DamagedBytes:
    """Return the damaged part of a segment."""
    what = f"{reason}: {len(data)} bytes of segment {segment} from offset {start}"
    return DamagedBytes(f"{segment:08d}-{start:010d}.bin", what, data)


def damaged_file(path: str, data: bytes) -> DamagedBytes:
    """Return a file that is damaged as a whole."""
    name = path[path.rindex("/") + 1 :]
    return DamagedBytes(f"{name}.bin", f"{path} is not what was written", data)


def save(
    filesystem: FileSystem, directory: str, damages: list[DamagedBytes]
) -> list[str]:
    """Put everything aside, durably; return a line for each; raises OSError."""
    if not damages:
        return []
    filesystem.make_directory(directory)
    lines: list[str] = []
    for damage in damages:
        path = f"{directory}/{damage.name}"
        # Met at every start until its segment is gone; one copy is enough.
        if filesystem.size(path) != len(damage.data):
            _write(filesystem, path, damage.data)
        lines.append(f"{damage.what}, saved as {path}")
    filesystem.sync_directory(directory)
    filesystem.sync_directory(directory[: directory.rindex("/")])
    return lines


def _write(filesystem: FileSystem, path: str, data: bytes) -> None:
    descriptor = filesystem.create(path)
    try:
        filesystem.write(descriptor, [data], 0)
        filesystem.sync(descriptor)
    finally:
        filesystem.close(descriptor)
