"""Opening a data directory: what it holds afterwards, and what a failure leaves."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from amqpd.config import Config, load
from amqpd.machine_memory import machine_size
from amqpd.opening import (
    DefinitionsUnreadable,
    Opened,
    forget_everything,
    open_rooms,
)
from store.errors import AlreadyLocked
from tests.support.deliveries import persistent_message

ANN = {
    "users": [{"name": "ann", "password": "s3cret", "tags": ""}],
    "vhosts": [{"name": "shop"}],
}
JOBS = {"queues": [{"name": "jobs", "vhost": "shop", "durable": True}]}
NOW_MS = 1_700_000_000_000

Open = Callable[..., Opened]


def config_of(directory: Path, **flags: str) -> Config:
    return load(None, {}, {"data_dir": str(directory / "data"), **flags}).config


@pytest.fixture
def open_directory(tmp_path: Path) -> Iterator[Open]:
    """Open the directory of this test; what is still open is closed at the end."""
    opened: list[Opened] = []

    def open_it(**flags: str) -> Opened:
        for earlier in opened:
            earlier.close(NOW_MS)
        opened.clear()
        opened.append(open_rooms(config_of(tmp_path, **flags), NOW_MS))
        return opened[0]

    yield open_it
    for left in opened:
        left.close(NOW_MS)


def definitions(path: Path, *parsed: Mapping[str, object]) -> str:
    merged = {key: value for part in parsed for key, value in part.items()}
    path.write_text(json.dumps(merged))
    return str(path)


def test_a_new_directory_gets_the_default_user_and_vhost(open_directory: Open) -> None:
    opened = open_directory(default_user="bob", default_vhost="home")
    assert opened.broker.users.names() == ["bob"]
    assert list(opened.broker.vhosts) == ["home"]
    assert (opened.queue_count, opened.message_count) == (0, 0)


def test_the_defaults_are_made_once(open_directory: Open) -> None:
    open_directory(default_user="bob")
    opened = open_directory(default_user="carol")
    assert opened.broker.users.names() == ["bob"]


def test_definitions_stand_in_for_the_defaults(
    open_directory: Open, tmp_path: Path
) -> None:
    path = definitions(tmp_path / "definitions.json", ANN)
    opened = open_directory(load_definitions=path)
    assert opened.broker.users.names() == ["ann"]
    assert list(opened.broker.vhosts) == ["shop"]


def test_definitions_that_define_nobody_leave_the_defaults(
    open_directory: Open, tmp_path: Path
) -> None:
    path = definitions(tmp_path / "definitions.json", {})
    opened = open_directory(load_definitions=path)
    assert opened.broker.users.names() == ["guest"]


def test_a_directory_of_definitions_is_loaded_in_the_order_of_names(
    open_directory: Open, tmp_path: Path
) -> None:
    folder = tmp_path / "definitions"
    folder.mkdir()
    definitions(folder / "2-queues.json", JOBS)
    definitions(folder / "1-users.json", ANN)
    (folder / "README").write_text("not one of them")
    opened = open_directory(load_definitions=str(folder))
    assert list(opened.broker.vhosts["shop"].queues) == ["jobs"]


def test_what_was_there_before_is_counted(open_directory: Open, tmp_path: Path) -> None:
    path = definitions(tmp_path / "definitions.json", ANN, JOBS)
    assert open_directory(load_definitions=path).queue_count == 0
    assert open_directory(load_definitions=path).queue_count == 1


def test_messages_are_counted_and_come_back_when_they_are_wanted(
    open_directory: Open, tmp_path: Path
) -> None:
    path = definitions(tmp_path / "definitions.json", ANN, JOBS)
    queue = open_directory(load_definitions=path).broker.vhosts["shop"].queues["jobs"]
    for body in (b"1", b"2", b"3"):
        queue.publish(persistent_message(body))
    opened = open_directory(load_definitions=path)
    assert opened.message_count == 3
    again = opened.broker.vhosts["shop"].queues["jobs"]
    assert not again.has_memory()
    reference = again.get(no_ack=True)
    assert reference is not None
    assert reference.message.content == persistent_message(b"1").content


def test_budgets_are_those_of_the_configuration(open_directory: Open) -> None:
    opened = open_directory(
        **{"memory.cold_budget": "2_000_000", "memory.total_budget": "3_000_000"}
    )
    budgets = opened.broker.pager.budgets
    assert (budgets.cold, budgets.total) == (2_000_000, 3_000_000)


def test_limits_of_memory_and_disk_are_those_of_the_configuration(
    open_directory: Open,
) -> None:
    opened = open_directory(
        **{
            "memory.available": "1GiB",
            "memory.high_watermark": "0.5",
            "disk.free_limit": "10MB",
        }
    )
    alarms = opened.broker.alarms
    assert alarms.memory_limit == 1 << 29
    assert alarms.disk_limit == 10_000_000
    assert opened.broker.pager.budgets.total == int(0.4 * (1 << 30))


def test_limits_of_the_node_are_those_of_the_configuration(
    open_directory: Open,
) -> None:
    assert open_directory().broker.admission.node_limits.connection_max < 0
    limits = open_directory(
        connection_max="1",
        channel_max_per_node="2",
        consumer_max_per_channel="3",
        vhost_max="4",
        cluster_queue_limit="5",
        cluster_exchange_limit="6",
    ).broker.admission.node_limits
    assert limits.node.startswith("amqpd@")
    assert (limits.connection_max, limits.channel_max) == (1, 2)
    assert limits.consumer_max_per_channel == 3
    assert (limits.vhost_max, limits.queue_max, limits.exchange_max) == (4, 5, 6)


def test_a_quorum_queue_may_be_taken_for_a_classic_one_if_that_is_configured(
    open_directory: Open,
) -> None:
    def relaxes(**settings: str) -> bool:
        broker = open_directory(**settings).broker
        broker.add_vhost("v")
        return broker.vhosts["v"].surroundings.relaxes_quorum_checks

    assert not relaxes()
    assert relaxes(**{"compat.relaxed_quorum_checks": "true"})


def test_available_memory_may_be_a_share_of_what_there_is(
    open_directory: Open,
) -> None:
    whole = open_directory().broker.alarms.memory_total
    half = open_directory(**{"memory.available": "0.5"}).broker.alarms.memory_total
    assert half == whole // 2


def test_without_a_budget_messages_may_take_a_share_of_the_memory(
    open_directory: Open,
) -> None:
    total = int(open_directory().broker.pager.budgets.total)
    assert 0 < total <= 0.4 * machine_size()


def test_what_a_paging_log_held_is_gone_with_its_process(
    open_directory: Open, tmp_path: Path
) -> None:
    open_directory()
    left = tmp_path / "data" / "paging" / "00000099.seg"
    left.write_bytes(b"left over")
    open_directory()
    assert not left.exists()


@pytest.mark.parametrize(
    ("sync", "is_early"), [("tick", False), ("always", False), ("off", True)]
)
def test_only_without_syncs_a_write_is_enough_for_who_waits(
    open_directory: Open, sync: str, is_early: bool
) -> None:
    broker = open_directory(**{"store.sync": sync}).broker
    assert broker.durability.confirms_early == is_early


def test_a_directory_that_is_open_cannot_be_opened(
    open_directory: Open, tmp_path: Path
) -> None:
    open_directory()
    with pytest.raises(AlreadyLocked, match=str(tmp_path)):
        open_rooms(config_of(tmp_path), NOW_MS)


@pytest.mark.parametrize("text", ["{", "[]", '{"users": [{}]}', "\udcff"])
def test_definitions_that_cannot_be_used_are_named_and_nothing_stays_open(
    open_directory: Open, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "definitions.json"
    path.write_text(text, errors="surrogateescape")
    with pytest.raises(DefinitionsUnreadable, match=str(path)):
        open_directory(load_definitions=str(path))
    assert open_directory().broker.users.names() == ["guest"]


def test_definitions_that_are_missing_are_named(open_directory: Open) -> None:
    with pytest.raises(DefinitionsUnreadable, match="/nowhere"):
        open_directory(load_definitions="/nowhere")


def test_a_torn_end_of_the_log_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    open_rooms(config_of(tmp_path), NOW_MS).close(NOW_MS)
    newest = max((tmp_path / "data" / "log").glob("*.seg"))
    with newest.open("r+b") as file:
        file.seek(0, 2)
        file.write(b"half a batch")
    with caplog.at_level(logging.INFO):
        open_rooms(config_of(tmp_path), NOW_MS).close(NOW_MS)
    assert "never known to be durable" in caplog.text


def test_a_directory_whose_data_are_forgotten_is_a_new_one(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    opened = open_rooms(config_of(tmp_path, default_user="bob"), NOW_MS)
    with pytest.raises(OSError, match="another process has the data directory"):
        forget_everything(directory)
    opened.close(NOW_MS)
    (directory / "notes.txt").write_text("not the broker's")
    forget_everything(directory)
    assert {path.name for path in directory.iterdir()} == {"lock", "notes.txt"}
    again = open_rooms(config_of(tmp_path, default_user="ann"), NOW_MS)
    assert again.broker.users.names() == ["ann"]
    again.close(NOW_MS)
