"""`amqpd store`: what a data directory holds, whether it is sound, and making it so.

    inspect   segments, their garbage, and what each queue has in them
    verify    every byte that was written, and whether it all goes together
    repair    what a start refuses is moved to quarantine/; nothing is deleted

All three lock the directory, so they refuse one that a broker has open; the first two
change nothing in it. Metadata is read from a copy: even reading makes SQLite write.

    0   sound
    1   damaged
    2   cannot be read: no data, in use, of another version, or the disk refuses
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from amqpd.broker.catalogue.catalogue import SCHEMA, SCHEMA_VERSION, Catalogue, QueueRow
from store.closed_directory import ClosedDirectory
from store.errors import MetadataDamaged, StoreError
from store.filesystem import OsFileSystem
from store.inspection import Inspection
from store.log_survey import LOG_NAME, LogSurvey
from store.metadata import Metadata
from store.repair import Repair, move_aside
from store.verification import Verification

EXIT_SOUND: Final = 0
EXIT_DAMAGED: Final = 1
EXIT_UNREADABLE: Final = 2

BAR_WIDTH: Final = 30
#: Of an SQLite database, beside the file itself.
METADATA_SUFFIXES: Final = ("", "-wal", "-shm")
_MIB: Final = 1024 * 1024

# Where SQLite notes the highest id that AUTOINCREMENT has given out.
_HAVE_SEQUENCE: Final = """INSERT INTO sqlite_sequence (name, seq) SELECT 'queues', 0
    WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'queues')"""
_RAISE_SEQUENCE: Final = """UPDATE sqlite_sequence SET seq = max(seq, ?)
    WHERE name = 'queues'"""


@dataclass(frozen=True)
class Known:
    """What the metadata says that the log must go together with."""

    store_uuid: bytes
    queues: list[QueueRow]
    highest_queue_id: int

    def levels(self) -> dict[int, tuple[QueueRow, int]]:
        """Whose each id in the log is, and which of its priority levels."""
        return {
            queue_id: (queue, level)
            for queue in self.queues
            for level, queue_id in enumerate(queue.ids())
        }

    def survey(self, directory: ClosedDirectory) -> LogSurvey:
        """Return a survey that has not looked yet."""
        ids = set(self.levels())
        return LogSurvey(
            OsFileSystem(), directory.path, self.store_uuid, ids, self.highest_queue_id
        )


def run(action: str, path: Path, is_json: bool) -> int:
    """Run one of the three and return the exit code."""
    actions: dict[str, Callable[[ClosedDirectory], int]] = {
        "inspect": lambda directory: _inspect(directory, is_json),
        "verify": _verify,
        "repair": _repair,
    }
    try:
        directory = ClosedDirectory(str(path), OsFileSystem())
        try:
            return actions[action](directory)
        finally:
            directory.close()
    except MetadataDamaged as error:
        _complain(str(error))
        return EXIT_DAMAGED
    except (StoreError, OSError) as error:
        _complain(str(error))
        return EXIT_UNREADABLE


def _complain(text: str) -> None:
    print(f"amqpd: {text}", file=sys.stderr)


# -- metadata


@contextmanager
def _metadata(path: str) -> Iterator[Metadata]:
    metadata = Metadata.open(path, SCHEMA, SCHEMA_VERSION, OsFileSystem())
    try:
        yield metadata
    finally:
        metadata.close()


def _known(directory: ClosedDirectory) -> Known:
    """Return what the metadata says.

    Raises:
        MetadataDamaged: it is not there, or cannot be used.
        StoreError: another version wrote it.
    """
    if not directory.has_metadata:
        raise MetadataDamaged(f"{directory.metadata_path} is missing")
    original = Path(directory.metadata_path)
    with tempfile.TemporaryDirectory(prefix="amqpd-store-") as place:
        for suffix in METADATA_SUFFIXES:
            source = original.with_name(original.name + suffix)
            if source.exists():
                shutil.copy(source, place)
        try:
            with _metadata(str(Path(place, original.name))) as metadata:
                catalogue = Catalogue(metadata)
                return Known(
                    metadata.store_uuid,
                    catalogue.queues() + catalogue.waiting_rooms(),
                    catalogue.highest_queue_id(),
                )
        except StoreError as error:
            # Nobody is to look for the copy.
            raise type(error)(str(error).replace(place, directory.path)) from error


# -- inspect


def _inspect(directory: ClosedDirectory, is_json: bool) -> int:
    known = _known(directory)
    inspection = Inspection(known.survey(directory))
    with Progress("segments") as progress:
        while not inspection.advance():
            progress.show(inspection.files_done, inspection.file_count)
    if is_json:
        print(json.dumps(_as_json(inspection, known), indent=2))
    else:
        _print_inspection(inspection, known)
    return EXIT_DAMAGED if inspection.survey.is_damaged else EXIT_SOUND


def _as_json(inspection: Inspection, known: Known) -> dict[str, object]:
    levels = known.levels()
    return {
        "segments": [
            {
                "name": segment.name,
                "file_size": segment.file_size,
                "live_size": segment.live_size,
                "messages": segment.references,
            }
            for segment in inspection.segments()
        ],
        "queues": [
            {
                "id": queue.queue_id,
                "vhost": levels[queue.queue_id][0].vhost,
                "name": levels[queue.queue_id][0].name,
                "priority": levels[queue.queue_id][1],
                "messages": queue.count,
                "size": queue.size,
                "runs": queue.run_count,
                "first_seq": queue.first_seq,
                "upper_seq": queue.upper_seq,
            }
            for queue in inspection.queues()
        ],
        "findings": [
            {"is_damage": finding.is_damage, "text": finding.text}
            for finding in inspection.survey.findings
        ],
    }


def _print_inspection(inspection: Inspection, known: Known) -> None:
    rows = [["segment", "MiB", "live MiB", "garbage", "messages"]]
    for segment in inspection.segments():
        # One that holds a header only is none.
        garbage = 1 - int(segment.live_size) / max(int(segment.file_size), 1)
        rows.append(
            [
                segment.name,
                _mib(segment.file_size),
                _mib(segment.live_size),
                f"{max(0.0, garbage):.0%}",
                f"{segment.references:,}",
            ]
        )
    _print_table(rows)
    print()
    levels = known.levels()
    rows = [["queue", "id", "MiB", "runs", "messages"]]
    for queue in inspection.queues():
        row, level = levels[queue.queue_id]
        priority = f", priority {level}" if row.level_count > 1 else ""
        rows.append(
            [
                f"{row.name} in {row.vhost}{priority}",
                str(queue.queue_id),
                _mib(queue.size),
                f"{queue.run_count:,}",
                f"{queue.count:,}",
            ]
        )
    _print_table(rows)
    print()
    _print_findings(inspection.survey)


def _mib(size: int) -> str:
    return f"{size / _MIB:,.1f}"


def _print_table(rows: list[list[str]]) -> None:
    """Print columns, the first to the left and the numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for first, *numbers in rows:
        cells = [first.ljust(widths[0])]
        for width, number in zip(widths[1:], numbers, strict=True):
            cells.append(number.rjust(width))
        print("  ".join(cells).rstrip())


def _print_findings(survey: LogSurvey) -> None:
    for finding in survey.findings:
        print(f"{'damaged' if finding.is_damage else 'note'}: {finding.text}")


# -- verify


def _verify(directory: ClosedDirectory) -> int:
    if not directory.has_version:
        print(f"damaged: {directory.path} holds data, but does not say of which format")
    verification = _verified(directory, _known(directory))
    _print_findings(verification.survey)
    is_sound = directory.has_version and not verification.survey.is_damaged
    print(_summary(verification, "sound" if is_sound else "damaged"))
    return EXIT_SOUND if is_sound else EXIT_DAMAGED


def _verified(directory: ClosedDirectory, known: Known) -> Verification:
    verification = Verification(known.survey(directory))
    with Progress("MiB read") as progress:
        while not verification.advance():
            done, total = verification.bytes_done, verification.bytes_total
            progress.show(done // _MIB, total // _MIB)
    return verification


def _summary(verification: Verification, word: str) -> str:
    index = verification.survey.index
    count = sum(queue.live_count for queue in index.queues.values())
    return (
        f"{word}: {verification.segment_count:,} segments,"
        f" {_mib(verification.bytes_total)} MiB,"
        f" {count:,} messages in {len(index.queues):,} queues"
    )


# -- repair


def _repair(directory: ClosedDirectory) -> int:
    if not directory.has_version:
        directory.write_version()
        print(f"{directory.path}/VERSION is written again")
    try:
        known = _known(directory)
    except MetadataDamaged as error:
        return _give_up_metadata(directory, error)
    verification = _verified(directory, known)
    survey = verification.survey
    _print_findings(survey)
    if not survey.is_damaged and not verification.torn_index_count:
        print(_summary(verification, "nothing to repair"))
        return EXIT_SOUND
    filesystem = OsFileSystem()
    _print_lines(move_aside(filesystem, directory.path, survey.foreign))
    repair = Repair(known.survey(directory))
    with Progress("MiB read") as progress:
        while not repair.advance():
            progress.show(repair.bytes_done // _MIB, repair.bytes_total // _MIB)
    _print_lines(repair.lines)
    if survey.unknown_queue_id:
        _give_out(directory, survey.unknown_queue_id)
    again = _verified(directory, _known(directory))
    is_sound = not again.survey.is_damaged
    if not is_sound:
        _print_findings(again.survey)
    print(_summary(again, "sound" if is_sound else "damaged"))
    return EXIT_SOUND if is_sound else EXIT_DAMAGED


def _print_lines(lines: list[str]) -> None:
    for line in lines:
        print(line)


def _give_up_metadata(directory: ClosedDirectory, error: MetadataDamaged) -> int:
    """Move everything aside that means nothing without the metadata."""
    print(f"damaged: {error}")
    metadata, log = Path(directory.metadata_path), Path(directory.path, LOG_NAME)
    paths = [f"{metadata}{suffix}" for suffix in METADATA_SUFFIXES]
    paths += [str(path) for path in sorted(log.iterdir())] if log.is_dir() else []
    there = [path for path in paths if Path(path).exists()]
    _print_lines(move_aside(OsFileSystem(), directory.path, there))
    print(
        "sound: a broker starts with nothing; with meta.db from a backup, and the "
        f"files that were in {LOG_NAME}/ put back, the messages are there again"
    )
    return EXIT_SOUND


def _give_out(directory: ClosedDirectory, queue_id: int) -> None:
    """Note that a queue id was given out: the log holds messages of that queue."""
    with _metadata(directory.metadata_path) as metadata:
        metadata.stage([(_HAVE_SEQUENCE, ()), (_RAISE_SEQUENCE, (queue_id,))], None)
        step = metadata.begin()
        assert step is not None, "a group was staged"
        step.run()
        for result in metadata.complete(step):
            if result.error is not None:
                raise StoreError(f"{directory.metadata_path}: {result.error}")
    print(f"no queue gets an id up to {queue_id} any more")


# -- progress


class Progress:
    """A bar on a terminal; elsewhere nothing."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._is_shown = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            # Carriage return, and clear to the end of the line.
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def show(self, done: int, total: int) -> None:
        """Show how much of it is done."""
        if self._is_shown:
            filled = BAR_WIDTH * done // max(total, 1)
            bar = "#" * filled + "." * (BAR_WIDTH - filled)
            sys.stderr.write(f"\r[{bar}] {done:,} of {total:,} {self._unit}")
            sys.stderr.flush()
