"""Events: what comes, goes and changes is told to whoever binds to the exchange."""

from __future__ import annotations

import pytest
from pamqp import commands

from amqpd.auth.permissions import Permission, TopicPermission
from amqpd.auth.users import User
from amqpd.broker.alarms import ResourceLimit
from amqpd.broker.errors import AmqpError
from amqpd.broker.events import EXCHANGE
from amqpd.broker.policies.parameters import Parameter
from amqpd.broker.policies.vhost_metadata import VhostMetadata
from amqpd.wire.frames import HEAD_SIZE
from amqpd.wire.properties import headers, property_list
from tests.support.connection_pair import Bench, ConnectionPair, method
from tests.support.content import publish
from tests.support.raw_client import (
    ALL_CAPABILITIES,
    PROTOCOL_HEADER,
    encode_frame,
    encode_start_ok,
    plain,
)

Event = tuple[str, dict[str, object]]


def nothing_happens(outcome: AmqpError | None) -> None:
    assert outcome is None


class Listener:
    """Somebody who gets all events of some keys."""

    def __init__(self, bench: Bench, key: str = "#") -> None:
        self._bench = bench
        pair = bench.connect()
        pair.declare("events")
        bind = commands.Queue.Bind(queue="events", exchange=EXCHANGE, routing_key=key)
        pair.call(1, bind, commands.Queue.BindOk)
        self.take()

    def take(self) -> list[Event]:
        """What has been published since the last time."""
        self._bench.run_idle()
        self._bench.pass_time(0)
        queue = self._bench.broker.vhosts["/"].queues["events"]
        events: list[Event] = []
        while (reference := queue.get(no_ack=True)) is not None:
            message = reference.message
            table = headers(message.content, HEAD_SIZE)
            events.append((message.routing_key().decode(), table))
        return events

    def keys(self) -> list[str]:
        """The keys of what has been published."""
        return [key for key, _ in self.take()]


@pytest.fixture(name="listener")
def _listener(bench: Bench) -> Listener:
    return Listener(bench)


def test_while_nobody_listens_nothing_is_noted(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.declare("q")
    assert not bench.broker.timers.has_starting
    assert not bench.broker.events.is_wanted


def test_clients_may_not_publish_events(bench: Bench, pair: ConnectionPair) -> None:
    pair.send(publish("queue.created", b"", EXCHANGE))
    assert pair.expect_close(1).code == 403


def test_an_event_is_a_message_without_a_body_that_says_when(
    bench: Bench, listener: Listener, pair: ConnectionPair
) -> None:
    listener.take()
    pair.declare("q")
    bench.pass_time(0)
    queue = bench.broker.vhosts["/"].queues["events"]
    reference = queue.get(no_ack=True)
    assert reference is not None
    message = reference.message
    properties = property_list(message.content, HEAD_SIZE)
    assert message.body_size() == 0
    assert properties.delivery_mode == 2
    assert properties.headers is not None
    assert properties.headers["timestamp_in_ms"] == bench.now_ms


def test_a_connection_comes_and_goes(bench: Bench, listener: Listener) -> None:
    pair = bench.connect()
    events = dict(listener.take())
    assert list(events) == [
        "user.authentication.success",
        "connection.created",
        "channel.created",
    ]
    assert events["user.authentication.success"]["name"] == "guest"
    created = events["connection.created"]
    assert created["user"] == "guest"
    assert created["vhost"] == "/"
    assert created["auth_mechanism"] == "PLAIN"
    assert created["frame_max"] == 131072
    for event in events["user.authentication.success"], created:
        assert (event["ssl"], event["ssl_protocol"]) == (False, "")
    channel = events["channel.created"]
    assert (channel["number"], channel["vhost"]) == (1, "/")
    assert channel["name"] == f"{created['name']} (1)"
    pair.connection.lose_socket("gone")
    events = dict(listener.take())
    assert list(events) == ["channel.closed", "connection.closed"]
    assert events["connection.closed"]["name"] == created["name"]


def test_a_login_that_fails(bench: Bench, listener: Listener) -> None:
    start_ok = encode_start_ok(b"PLAIN", plain("guest", "wrong"), ALL_CAPABILITIES)
    bench.accept().send(PROTOCOL_HEADER, encode_frame(1, 0, start_ok))
    ((key, told),) = listener.take()
    assert key == "user.authentication.failure"
    assert "invalid credentials" in str(told["error"])


def test_a_queue_its_binding_and_its_consumer(
    bench: Bench, listener: Listener, pair: ConnectionPair
) -> None:
    listener.take()
    pair.declare("q", durable=True)
    pair.declare("q", durable=True)
    bind = commands.Queue.Bind(queue="q", exchange="amq.topic", routing_key="k.#")
    pair.call(1, bind, commands.Queue.BindOk)
    pair.call(1, bind, commands.Queue.BindOk)
    pair.consume("q", "tag")
    events = dict(listener.take())
    assert list(events) == ["queue.created", "binding.created", "consumer.created"]
    queue = events["queue.created"]
    assert (queue["name"], queue["vhost"], queue["durable"]) == ("q", "/", True)
    assert (queue["type"], queue["user_who_performed_action"]) == ("classic", "guest")
    binding = events["binding.created"]
    assert binding["source_name"] == "amq.topic"
    assert (binding["destination_name"], binding["destination_kind"]) == ("q", "queue")
    assert binding["routing_key"] == "k.#"
    consumer = events["consumer.created"]
    assert (consumer["consumer_tag"], consumer["queue"]) == ("tag", "q")
    assert consumer["ack_required"] is True
    pair.send(method(1, commands.Queue.Delete(queue="q")))
    keys = listener.keys()
    assert sorted(keys) == ["binding.deleted", "consumer.deleted", "queue.deleted"]


def test_consumers_end_with_a_cancel_and_with_their_channel(
    bench: Bench, listener: Listener, pair: ConnectionPair
) -> None:
    pair.declare("q")
    pair.consume("q", "a")
    pair.consume("q", "b")
    listener.take()
    pair.send(method(1, commands.Basic.Cancel("a")))
    ((key, told),) = listener.take()
    assert (key, told["consumer_tag"]) == ("consumer.deleted", "a")
    pair.send(method(1, commands.Channel.Close(200, "", 0, 0)))
    assert listener.keys() == ["consumer.deleted", "channel.closed"]


def test_an_exchange_and_what_is_bound_to_it(
    bench: Bench, listener: Listener, pair: ConnectionPair
) -> None:
    listener.take()
    declare = commands.Exchange.Declare(exchange="x", exchange_type="fanout")
    pair.call(1, declare, commands.Exchange.DeclareOk)
    bind = commands.Exchange.Bind(destination="x", source="amq.topic")
    pair.call(1, bind, commands.Exchange.BindOk)
    events = dict(listener.take())
    assert list(events) == ["exchange.created", "binding.created"]
    assert events["exchange.created"]["type"] == "fanout"
    assert events["binding.created"]["destination_kind"] == "exchange"
    unbind = commands.Exchange.Unbind(destination="x", source="amq.topic")
    pair.call(1, unbind, commands.Exchange.UnbindOk)
    pair.call(1, unbind, commands.Exchange.UnbindOk)
    pair.call(1, commands.Exchange.Delete(exchange="x"), commands.Exchange.DeleteOk)
    assert listener.keys() == ["binding.deleted", "exchange.deleted"]


def test_users_and_their_rights(bench: Bench, listener: Listener) -> None:
    accounts = bench.broker.accounts
    accounts.put_user(User("ann", "hash", tags=("management",)), nothing_happens)
    assert dict(listener.take())["user.tags.set"]["tags"] == ["management"]
    accounts.put_user(User("ann", "other", tags=("management",)), nothing_happens)
    assert listener.keys() == ["user.password.changed"]
    accounts.put_user(User("ann", "", tags=("management",)), nothing_happens)
    assert listener.keys() == ["user.password.cleared"]
    accounts.put_permission(Permission("ann", "/", "c", "w", "r"), nothing_happens)
    ((key, told),) = listener.take()
    assert key == "permission.created"
    assert (told["configure"], told["write"], told["read"]) == ("c", "w", "r")
    topic = TopicPermission("ann", "/", "amq.topic", "w", "r")
    accounts.put_topic_permission(topic, nothing_happens)
    assert listener.keys() == ["topic.permission.created"]
    accounts.delete_topic_permissions("ann", "/", ["amq.topic"], nothing_happens)
    assert listener.keys() == ["topic.permission.deleted"]
    accounts.delete_permission("ann", "/", nothing_happens)
    assert listener.keys() == ["permission.deleted"]
    accounts.delete_users(["ann"], bench.now_ms, nothing_happens)
    assert listener.keys() == ["user.deleted"]


def test_virtual_hosts(bench: Bench, listener: Listener) -> None:
    accounts = bench.broker.accounts
    accounts.put_vhost("v", VhostMetadata("mine"), None, nothing_happens)
    accounts.put_vhost("v", VhostMetadata("yours"), None, nothing_happens)
    ((key, told),) = listener.take()
    assert (key, told["name"], told["description"]) == ("vhost.created", "v", "mine")
    accounts.delete_vhost(bench.broker.vhosts["v"], bench.now_ms, nothing_happens)
    assert listener.keys() == ["vhost.deleted"]


def test_policies_and_parameters(bench: Bench, listener: Listener) -> None:
    changes = bench.broker.changes
    definition = {"pattern": "^q", "definition": {"max-length": 5}}
    changes.put(Parameter("/", "policy", "p", definition), nothing_happens)
    ((key, told),) = listener.take()
    assert (key, told["name"], told["pattern"]) == ("policy.set", "p", "^q")
    assert told["definition"] == {"max-length": 5}
    changes.remove("/", "policy", "p", nothing_happens)
    assert listener.keys() == ["policy.cleared"]
    limits = {"max-connections": 100}
    changes.put(Parameter("/", "vhost-limits", "limits", limits), nothing_happens)
    changes.remove("/", "vhost-limits", "limits", nothing_happens)
    assert listener.keys() == ["vhost.limits.set", "vhost.limits.cleared"]
    changes.put(Parameter("/", "mine", "x", {"a": 1}), nothing_happens)
    changes.remove("/", "mine", "x", nothing_happens)
    assert listener.keys() == ["parameter.set", "parameter.cleared"]


def test_what_no_table_can_hold_is_only_logged(
    bench: Bench, listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    changes = bench.broker.changes
    changes.put(Parameter("/", "mine", "x", 1 << 70), nothing_happens)
    changes.put(Parameter("/", "mine", "y", 1), nothing_happens)
    assert listener.keys() == ["parameter.set"]
    assert "parameter.set is not published" in caplog.text


def test_alarms(bench: Bench, listener: Listener) -> None:
    alarms = bench.broker.alarms
    alarms.on_measured(1, 1 << 40, bench.now_ms)
    alarms.set_memory_watermark(ResourceLimit(0))
    ((key, told),) = listener.take()
    assert (key, told["resource"]) == ("alarm.set", "memory")
    alarms.set_memory_watermark(ResourceLimit(1))
    assert listener.keys() == ["alarm.cleared"]


def test_who_binds_to_some_keys_gets_those(bench: Bench) -> None:
    listener = Listener(bench, "queue.*")
    bench.connect().declare("q")
    assert listener.keys() == ["queue.created"]


def test_the_queue_of_events_may_go_with_an_event_pending(
    bench: Bench, listener: Listener, pair: ConnectionPair
) -> None:
    pair.call(1, commands.Queue.Delete(queue="events"), commands.Queue.DeleteOk)
    bench.pass_time(0)
    assert not bench.broker.events.is_wanted


def test_only_the_first_virtual_host_has_the_exchange(bench: Bench) -> None:
    assert EXCHANGE in bench.broker.vhosts["/"].exchanges
    bench.broker.add_vhost("other")
    assert EXCHANGE not in bench.broker.vhosts["other"].exchanges
