"""What a sync brings back: confirms, refusals, messages that leave their queues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pamqp import commands

from tests.support.connection_pair import Bench, ConnectionPair
from tests.support.content import (
    PERSISTENT_PROPERTIES,
    publish,
    short_string,
    with_headers,
)
from tests.support.failing_disk import FailingDisk


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


@pytest.fixture
def bench(fast_path: Path, disk: FailingDisk) -> Iterator[Bench]:
    bench = Bench(fast_path, disk)
    yield bench
    if not disk.is_broken:
        bench.close()


@pytest.fixture
def publisher(bench: Bench) -> ConnectionPair:
    """A channel in confirm mode, with the durable queues p and q."""
    pair = bench.connect()
    pair.declare("p", durable=True)
    pair.declare("q", durable=True)
    pair.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
    return pair


def persistent(queue: str, body: bytes = b"x") -> bytes:
    return publish(queue, body, properties=PERSISTENT_PROPERTIES)


def ready(bench: Bench, name: str) -> int:
    return bench.broker.vhosts["/"].queues[name].ready_count


def test_work_that_waits_is_seen_and_weighed(
    bench: Bench, publisher: ConnectionPair
) -> None:
    durability = bench.broker.durability
    assert (durability.is_wanted, durability.has_work) == (False, False)
    publisher.send(persistent("q", bytes(5000)))
    assert (durability.is_wanted, durability.has_work) == (True, True)
    assert durability.bytes_waiting > 5000
    assert durability.bytes_in_flight == 0
    step = bench.begin_sync()
    assert step is not None
    assert durability.bytes_waiting == 0
    assert durability.bytes_in_flight > 5000
    step.run()
    assert bench.complete_sync(step) is None
    assert durability.bytes_in_flight == 0
    assert bench.begin_sync() is None


def test_nothing_is_confirmed_before_the_sync_is_back(
    bench: Bench, publisher: ConnectionPair
) -> None:
    publisher.send(persistent("q"))
    step = bench.begin_sync()
    assert step is not None
    assert publisher.take() == []
    step.run()
    assert publisher.take() == []
    bench.complete_sync(step)
    assert publisher.expect(1, commands.Basic.Ack).delivery_tag == 1


def test_what_comes_while_a_sync_runs_waits_for_the_next(
    bench: Bench, publisher: ConnectionPair
) -> None:
    publisher.send(persistent("q"))
    step = bench.begin_sync()
    assert step is not None
    publisher.send(persistent("q"))
    step.run()
    bench.complete_sync(step)
    assert publisher.expect(1, commands.Basic.Ack).delivery_tag == 1
    bench.sync()
    assert publisher.expect(1, commands.Basic.Ack).delivery_tag == 2


def test_what_a_full_disk_refuses_is_nacked_and_leaves_its_queues(
    bench: Bench, publisher: ConnectionPair, disk: FailingDisk
) -> None:
    publisher.send(persistent("q"))
    bench.sync()
    publisher.expect(1, commands.Basic.Ack)
    disk.is_full = True
    publisher.send(persistent("q"), persistent("p"), persistent("q"))
    assert (ready(bench, "q"), ready(bench, "p")) == (3, 1)
    bench.sync()
    nack = publisher.expect(1, commands.Basic.Nack)
    assert (nack.delivery_tag, nack.multiple) == (4, True)
    assert (ready(bench, "q"), ready(bench, "p")) == (1, 0)
    disk.is_full = False


@pytest.mark.parametrize("by", ["queue", "exchange"])
def test_the_id_of_what_a_full_disk_refuses_may_come_again(
    bench: Bench, publisher: ConnectionPair, disk: FailingDisk, by: str
) -> None:
    comparing: Any = {"x-message-deduplication": True}
    table = comparing if by == "queue" else {}
    declare = commands.Queue.Declare(0, "d", durable=True, arguments=table)
    publisher.call(1, declare, commands.Queue.DeclareOk)
    exchange = commands.Exchange.Declare(0, "x", "fanout", arguments=comparing)
    publisher.call(1, exchange, commands.Exchange.DeclareOk)
    publisher.call(1, commands.Queue.Bind(0, "d", "x"), commands.Queue.BindOk)
    identity = short_string("x-deduplication-header") + b"S\x00\x00\x00\x01a"
    properties = b"\x30\x00" + with_headers(identity)[2:] + b"\x02"
    way = ("d", b"x", "") if by == "queue" else ("", b"x", "x")
    message = publish(*way, properties=properties)
    disk.is_full = True
    publisher.send(message)
    bench.sync()
    assert publisher.expect(1, commands.Basic.Nack).delivery_tag == 1
    disk.is_full = False
    bench.now_ms += 60_000
    bench.sync()
    # A duplicate is not confirmed before the first one is safe.
    publisher.send(message, message)
    assert publisher.take() == []
    bench.sync()
    ack = publisher.expect(1, commands.Basic.Ack)
    assert (ack.delivery_tag, ack.multiple) == (3, True)
    assert ready(bench, "d") == 1


def test_a_refused_message_of_a_queue_that_is_gone_troubles_nobody(
    bench: Bench, publisher: ConnectionPair, disk: FailingDisk
) -> None:
    disk.is_full = True
    publisher.send(persistent("q"), persistent("p"))
    step = bench.begin_sync()
    assert step is not None
    step.run()
    vhost = bench.broker.vhosts["/"]
    vhost.delete_queue_now(vhost.queues["q"])
    bench.complete_sync(step)
    assert ready(bench, "p") == 0
    assert publisher.expect(1, commands.Basic.Nack).delivery_tag == 2
    disk.is_full = False


def test_a_failed_sync_confirms_nothing_and_is_told_to_the_caller(
    bench: Bench, publisher: ConnectionPair, disk: FailingDisk
) -> None:
    publisher.send(persistent("q"))
    disk.is_broken = True
    step = bench.begin_sync()
    assert step is not None
    step.run()
    assert isinstance(bench.complete_sync(step), Exception)
    assert publisher.expect(1, commands.Basic.Nack).delivery_tag == 1


def test_confirms_are_counted_until_they_are_sent(
    bench: Bench, publisher: ConnectionPair
) -> None:
    durability = bench.broker.durability
    assert durability.waiting_count == 0
    publisher.send(persistent("q"), persistent("p"))
    step = bench.begin_sync()
    assert step is not None
    publisher.send(persistent("q"))
    assert durability.waiting_count == 3
    step.run()
    durability.complete(step)
    assert durability.waiting_count == 1
    bench.sync()
    assert durability.waiting_count == 0


def test_confirms_that_a_full_disk_refuses_do_not_wait_any_more(
    bench: Bench, publisher: ConnectionPair, disk: FailingDisk
) -> None:
    disk.is_full = True
    publisher.send(persistent("q"), persistent("p"))
    bench.sync()
    assert bench.broker.durability.waiting_count == 0
