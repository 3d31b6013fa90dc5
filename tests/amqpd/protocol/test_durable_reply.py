"""Replies that wait for the disk: they hold their channel, and only that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import commands

from tests.support.connection_pair import Bench, ConnectionPair, method
from tests.support.content import PERSISTENT_PROPERTIES, publish
from tests.support.failing_disk import FailingDisk

QOS = method(1, commands.Basic.Qos())


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


@pytest.fixture
def bench(fast_path: Path, disk: FailingDisk) -> Iterator[Bench]:
    bench = Bench(fast_path, disk)
    yield bench
    disk.is_full = False
    bench.close()


@pytest.fixture
def full(bench: Bench) -> ConnectionPair:
    """A channel, and two persistent messages in the durable queue d."""
    pair = bench.connect()
    pair.declare("d", durable=True)
    pair.send(publish("d", properties=PERSISTENT_PROPERTIES) * 2)
    bench.sync()
    return pair


def names(pair: ConnectionPair) -> list[str]:
    return [frame.method.name for frame in pair.take()]


def test_a_purge_of_a_durable_queue_is_answered_when_the_disk_has_it(
    bench: Bench, full: ConnectionPair
) -> None:
    full.send(method(1, commands.Queue.Purge(queue="d")), QOS)
    assert names(full) == []
    bench.sync()
    bench.turn()
    frames = full.take()
    purged = frames[0].method
    assert isinstance(purged, commands.Queue.PurgeOk)
    assert purged.message_count == 2
    assert [frame.method.name for frame in frames[1:]] == ["Basic.QosOk"]


def test_a_purge_without_an_answer_holds_the_channel_all_the_same(
    bench: Bench, full: ConnectionPair
) -> None:
    full.send(method(1, commands.Queue.Purge(queue="d", nowait=True)), QOS)
    assert names(full) == []
    bench.sync()
    bench.turn()
    assert names(full) == ["Basic.QosOk"]


@pytest.mark.parametrize("queue", ["empty", "transient"])
def test_a_purge_that_the_disk_need_not_know_does_not_wait(
    bench: Bench, full: ConnectionPair, queue: str
) -> None:
    full.declare(queue, durable=queue == "empty")
    if queue == "transient":
        full.send(publish(queue))
    full.send(method(1, commands.Queue.Purge(queue=queue)))
    assert names(full) == ["Queue.PurgeOk"]
    full.send(method(1, commands.Queue.Purge(queue=queue, nowait=True)), QOS)
    assert names(full) == ["Basic.QosOk"]


def test_a_commit_that_the_disk_refuses_closes_the_connection(
    bench: Bench, disk: FailingDisk
) -> None:
    pair = bench.connect()
    pair.declare("d", durable=True)
    pair.call(1, commands.Tx.Select(), commands.Tx.SelectOk)
    pair.send(publish("d", properties=PERSISTENT_PROPERTIES))
    pair.send(method(1, commands.Tx.Commit()), QOS)
    disk.is_full = True
    bench.sync()
    closed = pair.expect_close()
    assert (closed.code, closed.class_id, closed.method_id) == (506, 90, 20)
    assert bench.broker.vhosts["/"].queues["d"].ready_count == 0


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_sync_that_comes_back_after_the_end_is_told_to_nobody(
    bench: Bench, full: ConnectionPair, disk: FailingDisk, is_refused: bool
) -> None:
    full.send(method(1, commands.Queue.Purge(queue="d")))
    full.send(publish("d", properties=PERSISTENT_PROPERTIES))
    disk.is_full = is_refused
    step = bench.begin_sync()
    assert step is not None
    full.send(method(0, commands.Connection.Close(200, "bye", 0, 0)))
    assert names(full) == ["Connection.CloseOk"]
    step.run()
    bench.complete_sync(step)
    assert names(full) == []
