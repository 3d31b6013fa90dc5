"""The methods of exchange and queue: fields, answers, and what holds a channel."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import base, commands
from pamqp.common import FieldTable

from tests.support.connection_pair import Bench, ConnectionPair, method
from tests.support.content import publish

Exchange = commands.Exchange
Queue = commands.Queue


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.close()


@pytest.fixture
def client(bench: Bench) -> ConnectionPair:
    return bench.connect()


def refusal(client: ConnectionPair, sent: base.Frame) -> tuple[int | None, str]:
    """Code and text that the channel is closed with."""
    client.send(method(1, sent))
    client.bench.run_idle()
    closed = client.expect(1, commands.Channel.Close)
    return closed.reply_code, closed.reply_text


def names_of(client: ConnectionPair) -> list[str]:
    """The methods that the client has been sent."""
    return [taken.method.name for taken in client.take()]


@pytest.mark.parametrize("durable", [False, True])
def test_every_method_is_answered(client: ConnectionPair, durable: bool) -> None:
    x = Exchange.Declare(exchange="x", exchange_type="topic", durable=durable)
    client.call(1, x, Exchange.DeclareOk)
    declared = client.call(
        1, Queue.Declare(queue="q", durable=durable), Queue.DeclareOk
    )
    assert (declared.queue, declared.message_count, declared.consumer_count) == (
        "q",
        0,
        0,
    )
    client.call(1, Queue.Bind(queue="q", exchange="x", routing_key="a"), Queue.BindOk)
    client.call(
        1, Queue.Unbind(queue="q", exchange="x", routing_key="a"), Queue.UnbindOk
    )
    client.call(1, Exchange.Bind(destination="x", source="amq.topic"), Exchange.BindOk)
    client.call(
        1, Exchange.Unbind(destination="x", source="amq.topic"), Exchange.UnbindOk
    )
    client.call(1, Queue.Delete(queue="q"), Queue.DeleteOk)
    client.call(1, Exchange.Delete(exchange="x"), Exchange.DeleteOk)


@pytest.mark.parametrize("durable", [False, True])
def test_nobody_is_answered_who_does_not_wait(
    client: ConnectionPair, durable: bool
) -> None:
    for sent in (
        Exchange.Declare(
            exchange="x", exchange_type="direct", durable=durable, nowait=True
        ),
        Queue.Declare(queue="q", durable=durable, nowait=True),
        Queue.Bind(queue="q", exchange="x", nowait=True),
        Exchange.Bind(destination="x", source="amq.topic", nowait=True),
        Exchange.Unbind(destination="x", source="amq.topic", nowait=True),
        Queue.Purge(queue="q", nowait=True),
        Queue.Delete(queue="q", nowait=True),
        Exchange.Delete(exchange="x", nowait=True),
    ):
        client.send(method(1, sent))
    client.bench.run_idle()
    assert names_of(client) == []
    assert not client.bench.broker.vhosts["/"].queues


def test_errors_are_told_to_who_does_not_wait(client: ConnectionPair) -> None:
    told = refusal(client, Queue.Bind(queue="q", exchange="x", nowait=True))
    assert told == (404, "NOT_FOUND - no exchange 'x' in vhost '/'")


def test_a_channel_is_held_until_the_commit(
    bench: Bench, client: ConnectionPair
) -> None:
    client.send(
        method(1, Queue.Declare(queue="q", durable=True)),
        method(1, Queue.Declare(queue="q", passive=True)),
    )
    bench.turn()
    assert client.take() == []
    bench.commit()
    bench.turn()
    assert names_of(client) == ["Queue.DeclareOk", "Queue.DeclareOk"]


def test_other_channels_go_on_meanwhile(bench: Bench) -> None:
    client = bench.connect(131072, 2047, 1, 2)
    client.send(
        method(1, Queue.Declare(queue="q", durable=True)),
        method(2, Queue.Declare(queue="other")),
    )
    bench.turn()
    client.expect(2, Queue.DeclareOk)


def test_an_error_after_the_commit_closes_the_channel(
    bench: Bench, client: ConnectionPair
) -> None:
    other = bench.connect()
    other.send(method(1, Queue.Declare(queue="q", durable=True)))
    code, text = refusal(client, Queue.Declare(queue="q"))
    assert code == 406
    assert text.startswith("PRECONDITION_FAILED - inequivalent arg 'durable'")


def test_an_answer_to_a_connection_that_has_gone_is_dropped(
    bench: Bench, client: ConnectionPair
) -> None:
    client.send(method(1, Queue.Declare(queue="q", durable=True)))
    client.connection.lose_socket("gone")
    bench.run_idle()
    assert client.take() == []
    assert "q" in bench.broker.vhosts["/"].queues


def test_passive_declarations_look_only(client: ConnectionPair) -> None:
    client.declare("q")
    client.send(publish("q", b"one"))
    found = client.call(1, Queue.Declare(queue="q", passive=True), Queue.DeclareOk)
    assert (found.queue, found.message_count) == ("q", 1)
    passive = Exchange.Declare(exchange="amq.fanout", exchange_type="?", passive=True)
    client.call(1, passive, Exchange.DeclareOk)
    missing = Exchange.Declare(exchange="x", passive=True)
    assert refusal(client, missing)[0] == 404


def test_an_empty_name_is_the_last_queue_declared(client: ConnectionPair) -> None:
    name = client.call(1, Queue.Declare(queue=""), Queue.DeclareOk).queue
    assert name is not None
    client.send(publish(name, b"one"))
    assert client.call(1, Queue.Purge(queue=""), Queue.PurgeOk).message_count == 1
    client.call(
        1, Queue.Bind(queue="", exchange="amq.direct", routing_key="k"), Queue.BindOk
    )
    (binding,) = client.bench.broker.vhosts["/"].router.bindings()
    assert (binding.destination, binding.key) == (name, b"k")
    client.call(1, Queue.Delete(queue=""), Queue.DeleteOk)
    assert not client.bench.broker.vhosts["/"].queues


def test_an_empty_key_with_an_empty_name_is_that_queues_name(
    client: ConnectionPair,
) -> None:
    client.declare("q")
    client.call(1, Queue.Bind(queue="", exchange="amq.direct"), Queue.BindOk)
    (binding,) = client.bench.broker.vhosts["/"].router.bindings()
    assert (binding.destination, binding.key) == ("q", b"q")
    client.call(1, Queue.Unbind(queue="", exchange="amq.direct"), Queue.UnbindOk)
    assert list(client.bench.broker.vhosts["/"].router.bindings()) == []


def test_an_empty_key_with_a_name_stays_empty(client: ConnectionPair) -> None:
    client.declare("q")
    client.call(1, Queue.Bind(queue="q", exchange="amq.direct"), Queue.BindOk)
    (binding,) = client.bench.broker.vhosts["/"].router.bindings()
    assert binding.key == b""


@pytest.mark.parametrize(
    "sent",
    [
        Queue.Bind(queue="", exchange="amq.direct"),
        Queue.Unbind(queue="", exchange="amq.direct"),
        Queue.Purge(queue=""),
        Queue.Delete(queue=""),
    ],
)
def test_an_empty_name_needs_a_queue_before_it(
    client: ConnectionPair, sent: base.Frame
) -> None:
    assert refusal(client, sent) == (404, "NOT_FOUND - no previously declared queue")


def test_arguments_are_compared_as_they_came(client: ConnectionPair) -> None:
    table: FieldTable = {"x-message-ttl": 60000}
    declare = Queue.Declare(queue="q", arguments=table)
    client.call(1, declare, Queue.DeclareOk)
    code, text = refusal(client, Queue.Declare(queue="q"))
    assert code == 406
    assert text.startswith(
        "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q' in "
        "vhost '/': received none but current is the value '60000' of type"
    )


def test_a_deletion_tells_how_many_messages_went(client: ConnectionPair) -> None:
    client.declare("q")
    client.send(publish("q", b"one"), publish("q", b"two"))
    assert client.call(1, Queue.Delete(queue="q"), Queue.DeleteOk).message_count == 2


def test_a_deletion_may_be_refused(client: ConnectionPair) -> None:
    client.declare("q")
    client.send(publish("q", b"one"))
    assert refusal(client, Queue.Delete(queue="q", if_empty=True)) == (
        406,
        "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty",
    )


def test_a_purge_of_a_durable_queue_waits_for_the_disk(
    bench: Bench, client: ConnectionPair
) -> None:
    client.declare("q", durable=True)
    client.send(publish("q", b"one"))
    client.send(method(1, Queue.Purge(queue="q")))
    bench.turn()
    assert client.take() == []
    bench.sync()
    assert client.expect(1, Queue.PurgeOk).message_count == 1


def test_a_purge_of_nothing_waits_for_nobody(
    bench: Bench, client: ConnectionPair
) -> None:
    client.declare("q", durable=True)
    client.send(method(1, Queue.Purge(queue="q")))
    assert client.expect(1, Queue.PurgeOk).message_count == 0


def test_a_purge_needs_the_queue(client: ConnectionPair) -> None:
    told = refusal(client, Queue.Purge(queue="q"))
    assert told == (404, "NOT_FOUND - no queue 'q' in vhost '/'")


def test_exclusive_queues_end_with_the_connection(
    bench: Bench, client: ConnectionPair
) -> None:
    client.call(1, Queue.Declare(queue="q", exclusive=True), Queue.DeclareOk)
    client.connection.lose_socket("gone")
    client.connection.release()
    assert not bench.broker.vhosts["/"].queues
