"""The metadata: groups are atomic, share a commit, and survive."""

import errno
import sqlite3
from pathlib import Path

import pytest

from store.errors import MetadataDamaged, MetadataError
from store.filesystem import OsFileSystem
from store.metadata import Metadata, MetadataResult
from tests.support.memory_filesystem import Fault, MemoryFileSystem

SCHEMA = [
    "CREATE TABLE queues (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE)"
]


def opened(path: Path, version: int = 1) -> Metadata:
    return Metadata.open(str(path / "meta.db"), SCHEMA, version, OsFileSystem())


def insert(name: str) -> tuple[str, tuple[str]]:
    return "INSERT INTO queues (name) VALUES (?)", (name,)


def committed(metadata: Metadata) -> list[MetadataResult]:
    step = metadata.begin()
    assert step is not None
    step.run()
    return metadata.complete(step)


def names(metadata: Metadata) -> list[object]:
    return [row[0] for row in metadata.query("SELECT name FROM queues ORDER BY id")]


def test_a_new_database_has_the_schema_and_a_uuid(tmp_path: Path) -> None:
    metadata = opened(tmp_path)
    assert names(metadata) == []
    assert len(metadata.store_uuid) == 16
    assert metadata.query("PRAGMA journal_mode") == [("wal",)]
    assert metadata.query("PRAGMA synchronous") == [(2,)]
    metadata.close()


def test_the_uuid_and_the_rows_are_there_again(tmp_path: Path) -> None:
    metadata = opened(tmp_path)
    metadata.stage([insert("a")], "token")
    committed(metadata)
    metadata.close()
    again = opened(tmp_path)
    assert again.store_uuid == metadata.store_uuid
    assert names(again) == ["a"]
    again.close()


def test_two_stores_have_different_uuids(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, other = opened(tmp_path / "a"), opened(tmp_path / "b")
    assert one.store_uuid != other.store_uuid
    one.close()
    other.close()


def test_nothing_staged_is_nothing_to_do(tmp_path: Path) -> None:
    metadata = opened(tmp_path)
    assert not metadata.has_work
    assert metadata.begin() is None
    metadata.close()


def test_row_ids_are_returned_per_statement(tmp_path: Path) -> None:
    metadata = opened(tmp_path)
    metadata.stage([insert("a"), insert("b")], "first")
    metadata.stage(
        [insert("c"), ("DELETE FROM queues WHERE name = ?", ("a",))], "second"
    )
    assert metadata.has_work
    first, second = committed(metadata)
    assert (first.token, first.row_ids, first.error) == ("first", [1, 2], None)
    assert (second.token, second.row_ids[0], second.error) == ("second", 3, None)
    assert names(metadata) == ["b", "c"]
    metadata.close()


def test_the_id_of_a_deleted_last_row_is_never_given_out_again(tmp_path: Path) -> None:
    metadata = opened(tmp_path)
    metadata.stage([insert("a")], None)
    committed(metadata)
    metadata.stage([("DELETE FROM queues", ())], None)
    committed(metadata)
    metadata.stage([insert("a")], None)
    assert committed(metadata)[0].row_ids == [2]
    metadata.close()


def test_a_group_that_fails_takes_nothing_with_it(tmp_path: Path) -> None:
    metadata = opened(tmp_path)
    metadata.stage([insert("a")], "good")
    metadata.stage([insert("b"), insert("a")], "bad")
    metadata.stage([insert("c")], "also good")
    good, bad, also_good = committed(metadata)
    assert good.error is None
    assert isinstance(bad.error, MetadataError)
    assert "UNIQUE" in str(bad.error)
    assert bad.row_ids == []
    assert also_good.error is None
    assert names(metadata) == ["a", "c"]
    metadata.close()


def test_a_value_that_no_column_can_have_fails_its_group_alone(tmp_path: Path) -> None:
    metadata = opened(tmp_path)
    metadata.stage([insert("\udcff")], "bad")
    metadata.stage([insert("a")], "good")
    bad, good = committed(metadata)
    assert isinstance(bad.error, MetadataError)
    assert good.error is None
    assert names(metadata) == ["a"]
    metadata.close()


def test_a_commit_that_fails_fails_all_groups(tmp_path: Path) -> None:
    metadata = opened(tmp_path)
    other = sqlite3.connect(tmp_path / "meta.db", isolation_level=None)
    metadata._connection.execute("PRAGMA busy_timeout = 0")
    other.execute("BEGIN IMMEDIATE")
    metadata.stage([insert("a")], "token")
    (result,) = committed(metadata)
    assert isinstance(result.error, MetadataError)
    other.execute("ROLLBACK")
    other.close()
    metadata.stage([insert("b")], "token")
    assert committed(metadata)[0].error is None
    assert names(metadata) == ["b"]
    metadata.close()


def test_a_full_disk_fails_all_groups_and_leaves_no_half(tmp_path: Path) -> None:
    metadata = opened(tmp_path)
    pages = metadata.query("PRAGMA page_count")[0][0]
    metadata._connection.execute(f"PRAGMA max_page_count = {pages}")
    metadata.stage([insert("small")], "first")
    metadata.stage([insert("x" * 100_000)], "second")
    results = committed(metadata)
    assert any(result.error is not None for result in results)
    expected = ["small"] if results[0].error is None else []
    assert names(metadata) == expected
    assert not metadata._connection.in_transaction
    metadata.close()


def test_a_statement_that_ends_the_transaction_fails_all_groups(tmp_path: Path) -> None:
    # What SQLite itself does when the disk is full.
    metadata = opened(tmp_path)
    metadata.stage([insert("a")], "first")
    metadata.stage(
        [("INSERT OR ROLLBACK INTO queues (name) VALUES (?)", ("a",))], "second"
    )
    first, second = committed(metadata)
    assert first.error is not None
    assert second.error is not None
    assert names(metadata) == []
    metadata.close()


def test_a_transaction_that_cannot_be_committed_is_rolled_back(
    tmp_path: Path,
) -> None:
    bindings = (
        "CREATE TABLE bindings "
        "(queue INTEGER REFERENCES queues (id) DEFERRABLE INITIALLY DEFERRED)"
    )
    schema = [*SCHEMA, bindings]
    path = str(tmp_path / "meta.db")
    metadata = Metadata.open(path, schema, 1, OsFileSystem())
    metadata.query("PRAGMA foreign_keys = ON")
    metadata.stage([insert("a")], "good")
    metadata.stage([("INSERT INTO bindings VALUES (99)", ())], "bad")
    assert all(result.error is not None for result in committed(metadata))
    assert names(metadata) == []
    metadata.stage([insert("b")], "after")
    assert committed(metadata)[0].error is None
    metadata.close()


def test_a_missing_database_beside_a_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "00000001.seg").write_bytes(b"")
    with pytest.raises(MetadataError, match="amqpd store repair"):
        opened(tmp_path)
    assert not (tmp_path / "meta.db").exists()


def test_another_schema_version_is_refused(tmp_path: Path) -> None:
    opened(tmp_path, 1).close()
    with pytest.raises(MetadataError, match="schema version 1"):
        opened(tmp_path, 2)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.db").write_bytes(b"not a database" * 1000)
    with pytest.raises(MetadataError, match="amqpd store repair"):
        opened(tmp_path)


def test_a_database_that_cannot_be_opened_is_not_called_damaged(tmp_path: Path) -> None:
    (tmp_path / "meta.db").mkdir()
    with pytest.raises(MetadataError, match="cannot open") as raised:
        opened(tmp_path)
    assert not isinstance(raised.value, MetadataDamaged)


def test_a_database_whose_name_cannot_be_synced_is_not_called_damaged(
    tmp_path: Path,
) -> None:
    filesystem = MemoryFileSystem()
    filesystem.fault = Fault(1, errno.EIO, "sync_directory")
    with pytest.raises(MetadataError, match="cannot use") as raised:
        Metadata.open(str(tmp_path / "meta.db"), SCHEMA, 1, filesystem)
    assert not isinstance(raised.value, MetadataDamaged)


def test_a_database_without_a_uuid_is_refused(tmp_path: Path) -> None:
    metadata = opened(tmp_path)
    metadata.stage([("DELETE FROM store", ())], None)
    committed(metadata)
    metadata.close()
    with pytest.raises(MetadataError, match="UUID"):
        opened(tmp_path)


def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    metadata = opened(tmp_path)
    metadata.stage([insert(f"name {i}") for i in range(2000)], None)
    committed(metadata)
    metadata.close()
    path = tmp_path / "meta.db"
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 3000] = b"\x5a" * 3000
    path.write_bytes(data)
    with pytest.raises(MetadataError):
        opened(tmp_path)


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "meta.db")
    connection.execute("CREATE TABLE other (id INTEGER)")
    connection.close()
    with pytest.raises(MetadataError, match="schema version 0"):
        opened(tmp_path)
