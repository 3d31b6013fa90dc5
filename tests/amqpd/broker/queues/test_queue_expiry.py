"""Queues that nobody uses end: what counts as use, and what goes with them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pamqp import commands
from pamqp.commands import Basic, Queue

from amqpd.broker.timers import NEVER_MS
from tests.support.connection_pair import Bench, ConnectionPair, method
from tests.support.content import PERSISTENT_PROPERTIES, publish
from tests.support.control_plane import ControlPlane


def declare(pair: ConnectionPair, durable: bool = False, expires_ms: int = 100) -> None:
    sent = Queue.Declare(
        queue="q", durable=durable, arguments={"x-expires": expires_ms}
    )
    pair.call(1, sent, Queue.DeclareOk)
    pair.bench.pass_time(0)


def is_there(bench: Bench) -> bool:
    return "q" in bench.broker.vhosts["/"].queues


@pytest.mark.parametrize("durable", [False, True])
def test_a_queue_that_is_not_used_ends_at_its_time(
    bench: Bench, pair: ConnectionPair, durable: bool
) -> None:
    declare(pair, durable)
    bench.pass_time(99)
    assert is_there(bench)
    bench.pass_time(1)
    assert not is_there(bench)


def test_the_next_call_is_due_when_the_queue_is(
    bench: Bench, pair: ConnectionPair
) -> None:
    declare(pair)
    assert bench.pass_time(10) == bench.now_ms + 90
    assert bench.pass_time(90) == NEVER_MS


def use_by_declaring(pair: ConnectionPair) -> None:
    declare(pair)


def use_by_asking(pair: ConnectionPair) -> None:
    pair.call(1, Queue.Declare(queue="q", passive=True), Queue.DeclareOk)


def use_by_getting(pair: ConnectionPair) -> None:
    pair.call(1, Basic.Get(queue="q"), Basic.GetEmpty)


def use_by_consuming(pair: ConnectionPair) -> None:
    pair.consume("q")
    pair.call(1, Basic.Cancel("t"), Basic.CancelOk)


def use_by_a_channel_that_closes(pair: ConnectionPair) -> None:
    other = pair.bench.connect()
    other.consume("q")
    other.call(1, commands.Channel.Close(200, "", 0, 0), commands.Channel.CloseOk)


def use_by_a_connection_that_is_lost(pair: ConnectionPair) -> None:
    other = pair.bench.connect()
    other.consume("q")
    other.connection.lose_socket("gone")


@pytest.mark.parametrize(
    "use",
    [
        use_by_declaring,
        use_by_asking,
        use_by_getting,
        use_by_consuming,
        use_by_a_channel_that_closes,
        use_by_a_connection_that_is_lost,
    ],
)
def test_the_clock_begins_anew_with_every_use(
    bench: Bench, pair: ConnectionPair, use: Callable[[ConnectionPair], None]
) -> None:
    declare(pair)
    bench.pass_time(60)
    use(pair)
    bench.pass_time(0)
    bench.pass_time(99)
    assert is_there(bench)
    bench.pass_time(1)
    assert not is_there(bench)


def use_by_publishing(pair: ConnectionPair) -> None:
    pair.send(publish("q", b"x"))


def use_by_purging(pair: ConnectionPair) -> None:
    pair.call(1, Queue.Purge(queue="q"), Queue.PurgeOk)


def use_by_a_refused_declaration(pair: ConnectionPair) -> None:
    pair.send(method(1, Queue.Declare(queue="q", durable=True)))
    assert pair.expect_close(1).code == 406


@pytest.mark.parametrize(
    "use", [use_by_publishing, use_by_purging, use_by_a_refused_declaration]
)
def test_what_is_no_use_does_not_keep_the_queue(
    bench: Bench, pair: ConnectionPair, use: Callable[[ConnectionPair], None]
) -> None:
    declare(pair)
    bench.pass_time(60)
    use(pair)
    bench.pass_time(40)
    assert not is_there(bench)


def test_a_queue_with_a_consumer_stays(bench: Bench, pair: ConnectionPair) -> None:
    declare(pair)
    pair.consume("q")
    bench.pass_time(100)
    bench.pass_time(10_000)
    assert is_there(bench)


def test_one_of_two_consumers_keeps_the_queue(
    bench: Bench, pair: ConnectionPair
) -> None:
    declare(pair)
    pair.consume("q", "t")
    pair.consume("q", "u")
    pair.call(1, Basic.Cancel("t"), Basic.CancelOk)
    bench.pass_time(0)
    bench.pass_time(100)
    assert is_there(bench)


def test_an_expired_queue_takes_its_messages_and_its_row_along(
    bench: Bench, pair: ConnectionPair
) -> None:
    declare(pair, durable=True)
    pair.send(publish("q", b"x", properties=PERSISTENT_PROPERTIES))
    bench.run_idle()
    bench.pass_time(100)
    bench.run_idle()
    assert bench.broker.catalogue.queues() == []
    pair.send(publish("q", b"x", mandatory=True))
    assert isinstance(pair.take()[0].method, Basic.Return)


def test_a_queue_that_was_deleted_does_not_end_again(
    bench: Bench, pair: ConnectionPair, caplog: pytest.LogCaptureFixture
) -> None:
    declare(pair)
    queue = bench.broker.vhosts["/"].queues["q"]
    pair.call(1, Queue.Delete(queue="q"), Queue.DeleteOk)
    pair.declare("q")
    with caplog.at_level(logging.INFO, "amqpd.queue"):
        bench.pass_time(1000)
    assert is_there(bench)
    assert caplog.messages == []
    # Nothing holds the other in memory.
    assert queue.expiry is None


def test_the_log_names_the_queue_that_ends(
    bench: Bench, pair: ConnectionPair, caplog: pytest.LogCaptureFixture
) -> None:
    declare(pair)
    with caplog.at_level(logging.INFO, "amqpd.queue"):
        bench.pass_time(100)
    text = "queue 'q' in vhost '/' was not used for 100 ms and is deleted"
    assert caplog.messages == [text]


@pytest.fixture
def plane(fast_path: Path) -> Iterator[ControlPlane]:
    plane = ControlPlane(fast_path)
    yield plane
    plane.bench.close()


def test_the_clock_of_a_durable_queue_begins_when_the_broker_starts(
    plane: ControlPlane,
) -> None:
    plane.declare_queue(plane.guest(), "q", durable=True, table={"x-expires": 100})
    plane.commit()
    plane.bench.pass_time(60)
    plane.reopen()
    plane.bench.pass_time(0)
    plane.bench.pass_time(99)
    assert is_there(plane.bench)
    plane.bench.pass_time(1)
    assert not is_there(plane.bench)


def test_a_deletion_that_is_being_committed_and_the_expiry_get_on(
    plane: ControlPlane,
) -> None:
    session = plane.guest()
    plane.declare_queue(session, "q", durable=True, table={"x-expires": 100})
    plane.commit()
    plane.bench.pass_time(0)
    outcome = plane.delete_queue(session, "q")
    plane.bench.pass_time(100)
    assert not is_there(plane.bench)
    plane.commit()
    assert outcome.value == 0
    assert plane.rows("queues") == []
