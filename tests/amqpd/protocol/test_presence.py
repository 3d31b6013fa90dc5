"""A connection as the control plane sees it: what it and its channels tell."""

from pamqp import commands

from tests.support.connection_pair import Bench, ConnectionPair, method
from tests.support.content import publish


def test_a_connection_tells_who_it_is(bench: Bench, pair: ConnectionPair) -> None:
    [found] = bench.broker.connections.all()
    facts = found.facts()
    assert (facts.name, facts.user, facts.vhost) == (pair.connection.name, "guest", "/")
    assert (facts.state, facts.mechanism) == ("running", "PLAIN")
    assert (facts.frame_max, facts.channel_max, facts.heartbeat_s) == (131072, 2047, 60)
    assert (facts.channel_count, facts.connected_ms) == (1, bench.now_ms)
    assert facts.bytes_received == pair.connection.bytes_in > 0
    assert "capabilities" in facts.client_properties
    assert (found.user_name(), found.vhost_name(), found.channel_count()) == (
        "guest",
        "/",
        1,
    )


def test_octets_are_counted_both_ways(bench: Bench, pair: ConnectionPair) -> None:
    [found] = bench.broker.connections.all()
    before = found.facts()
    pair.send(method(1, commands.Confirm.Select()))
    bench.turn()
    pair.take()
    after = found.facts()
    assert after.bytes_received - before.bytes_received == 13
    assert after.bytes_sent > before.bytes_sent


def test_a_channel_tells_its_modes_and_what_is_open(
    bench: Bench, pair: ConnectionPair
) -> None:
    [found] = bench.broker.connections.all()
    pair.declare("q", durable=True)
    pair.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
    pair.call(1, commands.Basic.Qos(0, 7), commands.Basic.QosOk)
    pair.call(1, commands.Basic.Qos(0, 9, True), commands.Basic.QosOk)
    persistent = publish("q", b"m", properties=b"\x10\x00\x02")
    pair.send(persistent, persistent)
    bench.turn()
    waiting = found.channel_facts()[0]
    bench.sync()
    pair.take()
    pair.consume("q")
    bench.turn()
    [facts] = found.channel_facts()
    assert (facts.number, facts.is_confirming, facts.is_transactional) == (
        1,
        True,
        False,
    )
    assert (facts.consumer_prefetch, facts.prefetch) == (7, 9)
    assert (waiting.unconfirmed_count, facts.unconfirmed_count) == (2, 0)
    assert (waiting.unacked_count, facts.unacked_count) == (0, 2)
    [consumer] = facts.consumers
    assert (consumer.queue.name, consumer.consumer.queue) == ("q", consumer.queue)


def test_a_transaction_tells_what_is_not_committed(
    bench: Bench, pair: ConnectionPair
) -> None:
    [found] = bench.broker.connections.all()
    pair.declare("q")
    pair.send(publish("q", b"a"), publish("q", b"b"))
    bench.turn()
    pair.call(1, commands.Tx.Select(), commands.Tx.SelectOk)
    for _ in range(2):
        pair.send(method(1, commands.Basic.Get(0, "q")))
    pair.send(method(1, commands.Basic.Ack(2, True)), publish("q", b"c"))
    bench.turn()
    [facts] = found.channel_facts()
    assert facts.is_transactional
    assert (facts.uncommitted_count, facts.uncommitted_ack_count) == (1, 2)
    pair.take()
    pair.call(1, commands.Tx.Rollback(), commands.Tx.RollbackOk)
    [after] = found.channel_facts()
    assert (after.uncommitted_count, after.uncommitted_ack_count) == (0, 0)


def test_channels_are_told_by_number(bench: Bench, pair: ConnectionPair) -> None:
    [found] = bench.broker.connections.all()
    for number in (3, 2):
        pair.call(number, commands.Channel.Open(), commands.Channel.OpenOk)
    assert [facts.number for facts in found.channel_facts()] == [1, 2, 3]
