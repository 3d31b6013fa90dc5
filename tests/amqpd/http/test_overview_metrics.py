"""RabbitMQ's aggregated figures: what its dashboard asks for, and what they count."""

from __future__ import annotations

from pathlib import Path

import pytest
from pamqp import commands
from pamqp.common import FieldTable

from amqpd.broker.alarms import ResourceLimit
from amqpd.http.overview_metrics import OverviewFigures
from amqpd.http.room import Identity
from tests.support.connection_pair import Bench, ConnectionPair, method
from tests.support.content import publish
from tests.support.raw_client import (
    ALL_CAPABILITIES,
    PROTOCOL_HEADER,
    encode_frame,
    encode_start_ok,
    plain,
)

IDENTITY = Identity("amqpd@here", "blue", "0.1", "3.13.7", Path("/data"), 1_000)

BY_PROTOCOL = "rabbitmq_global_messages_{}_total amqp091"
BY_TYPE = "rabbitmq_global_messages_{}_total amqp091 rabbit_classic_queue"

#: What the Grafana dashboard "RabbitMQ-Overview" (10991) is made of.
DASHBOARD = [
    "rabbitmq_build_info",
    "rabbitmq_identity_info",
    "rabbitmq_erlang_uptime_seconds",
    "rabbitmq_connections",
    "rabbitmq_channels",
    "rabbitmq_consumers",
    "rabbitmq_queues",
    "rabbitmq_queue_messages_ready",
    "rabbitmq_queue_messages_unacked",
    "rabbitmq_queue_messages",
    "rabbitmq_connections_opened_total",
    "rabbitmq_connections_closed_total",
    "rabbitmq_channels_opened_total",
    "rabbitmq_channels_closed_total",
    "rabbitmq_queues_declared_total",
    "rabbitmq_queues_created_total",
    "rabbitmq_queues_deleted_total",
    "rabbitmq_disk_space_available_bytes",
    "rabbitmq_disk_space_available_limit_bytes",
    "rabbitmq_process_open_fds",
    "rabbitmq_process_max_fds",
    "rabbitmq_process_open_tcp_sockets",
    "rabbitmq_process_max_tcp_sockets",
    "rabbitmq_process_resident_memory_bytes",
    "rabbitmq_resident_memory_limit_bytes",
    "rabbitmq_global_publishers",
    "rabbitmq_global_consumers",
    "rabbitmq_global_messages_received_total",
    "rabbitmq_global_messages_received_confirm_total",
    "rabbitmq_global_messages_routed_total",
    "rabbitmq_global_messages_confirmed_total",
    "rabbitmq_global_messages_unroutable_dropped_total",
    "rabbitmq_global_messages_unroutable_returned_total",
    "rabbitmq_global_messages_delivered_total",
    "rabbitmq_global_messages_delivered_consume_manual_ack_total",
    "rabbitmq_global_messages_delivered_consume_auto_ack_total",
    "rabbitmq_global_messages_delivered_get_manual_ack_total",
    "rabbitmq_global_messages_delivered_get_auto_ack_total",
    "rabbitmq_global_messages_get_empty_total",
    "rabbitmq_global_messages_redelivered_total",
    "rabbitmq_global_messages_acknowledged_total",
    "rabbitmq_message_size_bytes_bucket",
    "rabbitmq_message_size_bytes_sum",
    "rabbitmq_message_size_bytes_count",
    # And what alert rules ask for.
    "rabbitmq_alarms_memory_used_watermark",
    "rabbitmq_alarms_free_disk_space_watermark",
    "rabbitmq_alarms_file_descriptor_limit",
    "rabbitmq_auth_attempts_total",
    "rabbitmq_auth_attempts_succeeded_total",
    "rabbitmq_auth_attempts_failed_total",
    "rabbitmq_global_messages_dead_lettered_maxlen_total",
    "rabbitmq_global_messages_dead_lettered_expired_total",
    "rabbitmq_global_messages_dead_lettered_rejected_total",
    "rabbitmq_global_messages_dead_lettered_delivery_limit_total",
    "rabbitmq_unreachable_cluster_peers_count",
]


def figures(bench: Bench) -> dict[str, float]:
    """Every sample, by its name and the values of its labels."""
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for metric in OverviewFigures(bench.broker, IDENTITY, lambda: 3_500).read()
        for sample in metric.samples
    }


def test_the_dashboard_finds_all_that_it_asks_for(bench: Bench) -> None:
    found = {name.split()[0] for name in figures(bench)}
    assert [name for name in DASHBOARD if name not in found] == []


def test_we_say_who_we_are(bench: Bench) -> None:
    metrics = OverviewFigures(bench.broker, IDENTITY, lambda: 3_500).read()
    labels = {
        metric.name: metric.samples[0].labels
        for metric in metrics
        if metric.name.endswith("_info")
    }
    assert labels["rabbitmq_build_info"]["rabbitmq_version"] == "3.13.7"
    identity = labels["rabbitmq_identity_info"]
    assert identity["rabbitmq_node"] == "amqpd@here"
    assert identity["rabbitmq_cluster"] == "blue"
    assert identity["rabbitmq_endpoint"] == "aggregated"
    assert figures(bench)["rabbitmq_erlang_uptime_seconds"] == 2.5


def test_what_is_open_and_what_has_come_and_gone(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.declare("q")
    pair.declare("q")
    pair.declare("gone")
    pair.call(1, commands.Queue.Delete(queue="gone"), commands.Queue.DeleteOk)
    pair.consume("q")
    pair.call(2, commands.Channel.Open(), commands.Channel.OpenOk)
    pair.call(2, commands.Channel.Close(200, "", 0, 0), commands.Channel.CloseOk)
    bench.connect().connection.lose_socket("gone")
    found = figures(bench)
    expected = {
        "connections": 1,
        "channels": 1,
        "consumers": 1,
        "queues": 1,
        "connections_opened_total": 2,
        "connections_closed_total": 1,
        "channels_opened_total": 3,
        "channels_closed_total": 2,
        "queues_declared_total": 3,
        "queues_created_total": 2,
        "queues_deleted_total": 1,
        "auth_attempts_total amqp091": 2,
        "auth_attempts_failed_total amqp091": 0,
        "global_publishers amqp091": 0,
        "global_consumers amqp091": 1,
    }
    assert {name: found["rabbitmq_" + name] for name in expected} == expected


def test_a_login_that_fails_is_counted(bench: Bench) -> None:
    start_ok = encode_start_ok(b"PLAIN", plain("guest", "wrong"), ALL_CAPABILITIES)
    bench.accept().send(PROTOCOL_HEADER, encode_frame(1, 0, start_ok))
    found = figures(bench)
    assert found["rabbitmq_auth_attempts_total amqp091"] == 1
    assert found["rabbitmq_auth_attempts_failed_total amqp091"] == 1


def test_messages_that_come_in(bench: Bench, pair: ConnectionPair) -> None:
    pair.declare("q")
    pair.declare("r")
    for name in ("q", "r"):
        bind = commands.Queue.Bind(queue=name, exchange="amq.fanout", routing_key="")
        pair.call(1, bind, commands.Queue.BindOk)
    pair.send(publish("", b"x", "amq.fanout"))
    pair.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
    pair.send(publish("q", bytes(2000)), publish("nowhere"))
    pair.send(publish("nowhere", mandatory=True))
    pair.take()
    found = figures(bench)
    expected = {
        "received": 4,
        "received_confirm": 3,
        "confirmed": 3,
        "routed": 3,
        "unroutable_dropped": 1,
        "unroutable_returned": 1,
    }
    assert {name: found[BY_PROTOCOL.format(name)] for name in expected} == expected
    assert found["rabbitmq_global_publishers amqp091"] == 1
    assert found["rabbitmq_queue_messages_ready"] == 3


def test_messages_that_go_out(bench: Bench, pair: ConnectionPair) -> None:
    pair.declare("q")
    get = method(1, commands.Basic.Get(queue="q"))
    pair.send(get, publish("q", b"x") * 5)
    pair.send(get, method(1, commands.Basic.Get(queue="q", no_ack=True)))
    pair.send(method(1, commands.Basic.Nack(1, requeue=True)))
    pair.send(method(1, commands.Basic.Qos(0, 2)))
    pair.send(method(1, commands.Basic.Consume(queue="q", consumer_tag="acks")))
    bench.turn()
    pair.send(method(1, commands.Basic.Cancel("acks")))
    no_ack = commands.Basic.Consume(queue="q", consumer_tag="does not", no_ack=True)
    pair.send(method(1, no_ack))
    bench.turn()
    pair.send(method(1, commands.Basic.Ack(3)))
    found = figures(bench)
    expected = {
        "get_empty": 1,
        "delivered_get_manual_ack": 1,
        "delivered_get_auto_ack": 1,
        "delivered_consume_manual_ack": 2,
        "delivered_consume_auto_ack": 2,
        "delivered": 6,
        "redelivered": 1,
        "acknowledged": 1,
    }
    assert {name: found[BY_TYPE.format(name)] for name in expected} == expected
    assert found["rabbitmq_queue_messages_unacked"] == 1


@pytest.mark.parametrize("is_open", [True, False])
def test_counts_outlive_their_channel(
    bench: Bench, pair: ConnectionPair, is_open: bool
) -> None:
    pair.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
    pair.send(publish("nowhere", b"x"))
    pair.take()
    if not is_open:
        pair.call(1, commands.Channel.Close(200, "", 0, 0), commands.Channel.CloseOk)
    found = figures(bench)
    for name in ("received", "received_confirm", "confirmed", "unroutable_dropped"):
        assert found[BY_PROTOCOL.format(name)] == 1, name


def test_a_channel_that_the_broker_has_closed_counts_once(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.send(publish("nowhere"), method(1, commands.Basic.Ack(7)))
    pair.take()
    assert figures(bench)[BY_PROTOCOL.format("received")] == 1
    pair.send(method(1, commands.Channel.CloseOk()))
    assert figures(bench)[BY_PROTOCOL.format("received")] == 1


def test_sizes_are_those_of_bodies(bench: Bench, pair: ConnectionPair) -> None:
    for size in (0, 100, 101, 10_000, 99_999, 100_001):
        pair.send(publish("nowhere", bytes(size)))
    found = figures(bench)
    name = "rabbitmq_message_size_bytes_bucket amqp091 "
    counts = [
        found[name + bound] for bound in ("100", "1000", "10000", "100000", "1e+06")
    ]
    assert counts == [2, 3, 4, 5, 6]
    assert found[name + "+Inf"] == 6
    assert found["rabbitmq_message_size_bytes_sum amqp091"] == 210_201


def test_dead_letters_are_counted_by_reason(bench: Bench, pair: ConnectionPair) -> None:
    arguments: FieldTable = {"x-dead-letter-exchange": "", "x-max-length": 1}
    declare = commands.Queue.Declare(queue="q", arguments=arguments)
    pair.call(1, declare, commands.Queue.DeclareOk)
    pair.send(publish("q", b"x") * 3)
    bench.turn()
    name = "rabbitmq_global_messages_dead_lettered_maxlen_total"
    assert figures(bench)[f"{name} rabbit_classic_queue at_most_once"] == 2


def test_dead_letters_that_are_to_arrive_are_counted_for_themselves(
    bench: Bench, pair: ConnectionPair
) -> None:
    arguments: FieldTable = {
        "x-queue-type": "quorum",
        "x-overflow": "reject-publish",
        "x-dead-letter-strategy": "at-least-once",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
    }
    declare = commands.Queue.Declare(queue="q", durable=True, arguments=arguments)
    pair.call(1, declare, commands.Queue.DeclareOk)
    pair.send(publish("q", b"x"))
    bench.turn()
    queue = bench.broker.vhosts["/"].queues["q"]
    reference = queue.get(False)
    assert reference is not None
    queue.reject(reference)
    name = "rabbitmq_global_messages_dead_lettered_{}_total rabbit_quorum_queue {}"
    found = figures(bench)
    assert found[name.format("rejected", "at_least_once")] == 1
    assert found[name.format("confirmed", "at_least_once")] == 0
    assert found["rabbitmq_queue_messages"] == 1
    pair.declare("dead")
    bench.pass_time(0)
    bench.pass_time(1000)
    assert figures(bench)[name.format("confirmed", "at_least_once")] == 1


def test_alarms_are_told(bench: Bench) -> None:
    alarms = bench.broker.alarms
    alarms.on_measured(10, 20, 0)
    assert figures(bench)["rabbitmq_alarms_memory_used_watermark"] == 1
    alarms.set_memory_watermark(ResourceLimit(10))
    alarms.set_disk_free_limit(ResourceLimit(21))
    alarms.is_out_of_descriptors = True
    found = figures(bench)
    assert found["rabbitmq_alarms_memory_used_watermark"] == 0
    assert found["rabbitmq_alarms_free_disk_space_watermark"] == 1
    assert found["rabbitmq_alarms_file_descriptor_limit"] == 1
    assert found["rabbitmq_disk_space_available_bytes"] == 20
    assert found["rabbitmq_disk_space_available_limit_bytes"] == 21
    assert found["rabbitmq_resident_memory_limit_bytes"] == 10
