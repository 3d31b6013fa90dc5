"""`amqpd store` on real directories: what it prints, how it exits, what it leaves."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from amqpd.broker.catalogue.catalogue import SCHEMA, SCHEMA_VERSION, Catalogue
from amqpd.broker.catalogue.statements import insert_queue
from amqpd.cli.server import main
from amqpd.cli.store import EXIT_DAMAGED, EXIT_SOUND, EXIT_UNREADABLE
from store.data_directory import DataDirectory
from store.filesystem import OsFileSystem
from store.metadata import Metadata
from store.opening import Opened, open_store
from store.options import StoreOptions

OPTIONS = StoreOptions(segment_size=16 * 1024)


def open_metadata(path: Path) -> Metadata:
    filesystem = OsFileSystem()
    return Metadata.open(str(path / "meta.db"), SCHEMA, SCHEMA_VERSION, filesystem)


def declare(path: Path, *names: str, level_count: int = 1) -> None:
    """Give every name a durable queue; ids begin with 1."""
    metadata = open_metadata(path)
    for name in names:
        metadata.stage(insert_queue("/", name, False, b"", level_count), None)
    step = metadata.begin()
    assert step is not None
    step.run()
    assert all(result.error is None for result in metadata.complete(step))
    metadata.close()


def publish(path: Path, count: int, queue_id: int = 1, is_killed: bool = False) -> int:
    """Put messages into a queue, a batch each; return how many are in it after."""
    metadata = open_metadata(path)
    catalogue = Catalogue(metadata)
    opened: Opened[str] = open_store(
        str(path),
        OsFileSystem(),
        OPTIONS,
        metadata.store_uuid,
        catalogue.known_queue_ids() | {queue_id},
        max(catalogue.highest_queue_id(), queue_id),
        0,
    )
    store = opened.store
    queue = opened.queues[queue_id]
    for seq in range(int(queue.next_seq), int(queue.next_seq) + count):
        store.append(b"envelope", b"x" * 1000, None, 0, 0, queue_id, seq, 0)
        step = store.begin(False, 0)
        assert step is not None
        step.run()
        store.complete(step)
    if not is_killed:
        last = store.close_step(0)
        assert last is not None
        last.run()
        store.complete(last)
        store.finish()
    store.close()
    metadata.close()
    return int(queue.count) + count


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory that was stopped cleanly, with 40 messages in queue `jobs`."""
    path = tmp_path / "data"
    DataDirectory.open(str(path), OsFileSystem()).close()
    declare(path, "jobs", "empty")
    publish(path, 40)
    return path


def snapshot(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


def damage(file: Path, offset: int) -> None:
    data = bytearray(file.read_bytes())
    data[offset] ^= 0xFF
    file.write_bytes(data)


def run(action: str, path: Path, *flags: str) -> int:
    return main(["store", action, str(path), *flags])


# -- sound


def test_a_sound_directory_is_verified_and_summed_up(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(place)
    assert run("verify", place) == EXIT_SOUND
    line = capsys.readouterr().out.strip()
    assert line.startswith("sound: ")
    assert line.endswith("40 messages in 1 queues")
    assert snapshot(place) == before


def test_there_is_nothing_to_repair_in_a_sound_directory(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(place)
    assert run("repair", place) == EXIT_SOUND
    assert capsys.readouterr().out.startswith("nothing to repair: ")
    assert snapshot(place) == before


def test_a_killed_broker_leaves_a_sound_directory(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(place, 2, is_killed=True)
    assert run("verify", place) == EXIT_SOUND
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("note: the broker was not stopped cleanly")
    assert last.endswith("42 messages in 1 queues")


def test_levels_of_a_queue_are_known_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "levels"
    DataDirectory.open(str(path), OsFileSystem()).close()
    declare(path, "urgent", level_count=10)
    declare(path, "jobs")
    publish(path, 3)
    publish(path, 2, queue_id=10)
    publish(path, 1, queue_id=11)
    assert run("verify", path) == EXIT_SOUND
    assert run("repair", path) == EXIT_SOUND
    capsys.readouterr()
    assert run("inspect", path) == EXIT_SOUND
    table = capsys.readouterr().out
    assert "urgent in /, priority 0  " in table
    assert "urgent in /, priority 9  " in table
    assert "jobs in /  " in table
    assert run("inspect", path, "--json") == EXIT_SOUND
    queues = json.loads(capsys.readouterr().out)["queues"]
    assert [
        (queue["id"], queue["name"], queue["priority"], queue["messages"])
        for queue in queues
    ] == [(1, "urgent", 0, 3), (10, "urgent", 9, 2), (11, "jobs", 0, 1)]


def test_an_inspection_shows_segments_and_queues(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(place)
    assert run("inspect", place) == EXIT_SOUND
    out = capsys.readouterr().out
    assert "00000001.seg" in out
    (row,) = [line for line in out.splitlines() if line.startswith("jobs in /")]
    assert row.split()[-1] == "40"
    assert snapshot(place) == before


def test_an_inspection_for_programs_is_json(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("inspect", place, "--json") == EXIT_SOUND
    found = json.loads(capsys.readouterr().out)
    (queue,) = found["queues"]
    assert (queue["name"], queue["vhost"], queue["messages"]) == ("jobs", "/", 40)
    assert sum(segment["messages"] for segment in found["segments"]) == 40
    assert found["findings"] == []


# -- cannot be read


@pytest.mark.parametrize("action", ["inspect", "verify", "repair"])
def test_a_directory_in_use_is_refused(
    action: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = DataDirectory.open(str(place), OsFileSystem())
    assert run(action, place) == EXIT_UNREADABLE
    assert "another process has the data directory" in capsys.readouterr().err
    directory.close()


@pytest.mark.parametrize("action", ["inspect", "verify", "repair"])
def test_a_directory_that_is_not_there_is_not_made(
    action: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nowhere"
    assert run(action, path) == EXIT_UNREADABLE
    assert "holds no data of a broker" in capsys.readouterr().err
    assert not path.exists()


@pytest.mark.parametrize("action", ["inspect", "verify", "repair"])
def test_metadata_of_another_version_is_not_touched(
    action: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = sqlite3.connect(place / "meta.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = snapshot(place)
    assert run(action, place) == EXIT_UNREADABLE
    assert f"{place}/meta.db has schema version 99" in capsys.readouterr().err
    assert snapshot(place) == before


# -- damaged


def test_a_damaged_record_is_found_repaired_and_kept(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(place / "log" / "00000001.seg", 500)
    before = snapshot(place)
    assert run("verify", place) == EXIT_DAMAGED
    out = capsys.readouterr().out
    assert "damaged: a record is damaged" in out
    assert out.splitlines()[-1].startswith("damaged: ")
    assert snapshot(place) == before
    assert run("repair", place) == EXIT_SOUND
    out = capsys.readouterr().out
    assert "1 messages of" in out
    assert out.splitlines()[-1].endswith("39 messages in 1 queues")
    assert list((place / "quarantine").glob("00000001-*.bin"))
    assert publish(place, 1) == 40


def test_a_directory_whose_broker_was_killed_is_repaired(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The next segment is there already, and allocated.
    publish(place, 12, is_killed=True)
    damage(place / "log" / "00000001.seg", 500)
    assert run("repair", place) == EXIT_SOUND
    assert run("verify", place) == EXIT_SOUND
    assert publish(place, 1) == 52


def test_a_torn_index_file_is_no_damage_and_a_repair_makes_it_again(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = place / "log" / "00000001.idx"
    right = path.read_bytes()
    damage(path, 70)
    assert run("verify", place) == EXIT_SOUND
    assert "it is made again when it is wanted" in capsys.readouterr().out
    assert run("repair", place) == EXIT_SOUND
    assert path.read_bytes() == right
    assert (place / "quarantine" / "00000001.idx").exists()


def test_lost_checkpoints_are_made_again(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (place / "log").glob("checkpoint.*"):
        damage(file, 140)
    assert run("inspect", place) == EXIT_DAMAGED
    assert run("repair", place) == EXIT_SOUND
    assert run("verify", place) == EXIT_SOUND
    assert publish(place, 1) == 41


def test_a_directory_without_its_version_gets_it_back(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "VERSION").unlink()
    assert run("verify", place) == EXIT_DAMAGED
    assert "does not say of which format" in capsys.readouterr().out
    assert run("repair", place) == EXIT_SOUND
    assert run("verify", place) == EXIT_SOUND
    DataDirectory.open(str(place), OsFileSystem()).close()


def test_a_queue_id_that_was_never_given_out_is_never_given_out(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Messages of queue 7 reached the log, and meta.db is from before.
    older = (place / "meta.db").read_bytes()
    declare(place, "c", "d", "e", "f", "g")
    publish(place, 3, queue_id=7)
    for file in place.glob("meta.db*"):
        file.unlink()
    (place / "meta.db").write_bytes(older)
    assert run("verify", place) == EXIT_DAMAGED
    assert "queue id 7" in capsys.readouterr().out
    assert run("repair", place) == EXIT_SOUND
    assert "no queue gets an id up to 7 any more" in capsys.readouterr().out
    declare(place, "new")
    metadata = open_metadata(place)
    ids = {queue.name: queue.id for queue in Catalogue(metadata).queues()}
    metadata.close()
    assert ids == {"jobs": 1, "empty": 2, "new": 8}
    assert publish(place, 1) == 41


@pytest.mark.parametrize("is_there", [False, True])
def test_without_usable_metadata_everything_is_moved_aside(
    is_there: bool, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = place.parent / "saved"
    shutil.copytree(place, saved)
    segments = snapshot(place / "log")
    (place / "meta.db").unlink()
    if is_there:
        (place / "meta.db").write_bytes(b"this is no database" * 300)
    assert run("verify", place) == EXIT_DAMAGED
    assert "meta.db" in capsys.readouterr().err
    assert run("repair", place) == EXIT_SOUND
    out = capsys.readouterr().out
    assert "a broker starts with nothing" in out
    kept = snapshot(place / "quarantine")
    assert {name: kept[name] for name in segments} == segments
    assert ("meta.db" in kept) == is_there
    # As it says: with a backup of meta.db, and the files put back, all is there.
    shutil.copy(saved / "meta.db", place)
    for name in segments:
        (place / "quarantine" / name).rename(place / "log" / name)
    assert publish(place, 1) == 41


def test_the_help_says_what_the_exit_codes_mean(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["store", "verify", "--help"])
    assert "1 if it is damaged" in " ".join(capsys.readouterr().out.split())
