"""Queues: names, what an existing one must equal, deleting, purging, locks."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

import pytest
from pamqp import base, commands
from pamqp.commands import Basic, Queue

from tests.support.raw_client import (
    METHOD,
    Closed,
    RawClient,
    channel_closed,
    longstr,
    shortstr,
)

LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{}' "
    "in vhost '/'. It could be originally declared on another connection or the "
    "exclusive property value does not match that of the original declaration."
)
TTL = "x-message-ttl"


def refused(code: int, text: str, method_id: int = 10) -> Closed:
    return channel_closed(code, text, 50, method_id)


def declare(client: RawClient, name: str, **fields: object) -> Queue.DeclareOk:
    method = Queue.Declare(0, name, **fields)  # type: ignore[arg-type]
    return client.call(1, method, Queue.DeclareOk)


def test_a_server_named_queue_is_called_amq_gen(client: RawClient) -> None:
    first, second = client.temporary_queue(), client.temporary_queue()
    assert first != second
    assert re.fullmatch(r"amq\.gen-[A-Za-z0-9_-]{22}", first)


def test_carriage_returns_and_line_feeds_are_taken_out_of_names(
    client: RawClient, fresh_name: Callable[[], str]
) -> None:
    name = fresh_name()
    sent = shortstr(f"{name}\r\n-end\n".encode())
    arguments = b"\x00\x00" + sent + b"\x04" + longstr(b"")
    client.send_frame(METHOD, 1, struct.pack(">HH", 50, 10) + arguments)
    assert client.expect_method(1, Queue.DeclareOk).queue == f"{name}-end"


def test_declare_ok_counts_ready_messages_and_consumers(client: RawClient) -> None:
    queue = client.temporary_queue()
    for _ in range(3):
        client.publish_to_queue(queue, b"x")
    client.get(queue, no_ack=False)
    reply = declare(client, queue, passive=True)
    assert (reply.queue, reply.message_count, reply.consumer_count) == (queue, 2, 0)
    client.call(1, Basic.Qos(0, 1), Basic.QosOk)
    client.call(1, Basic.Consume(0, queue), Basic.ConsumeOk)
    client.expect_message(1, Basic.Deliver)
    reply = declare(client, queue, passive=True)
    assert (reply.message_count, reply.consumer_count) == (1, 1)


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ({}, {"durable": True}, "'durable' {}: received 'true' but current is 'false'"),
        ({"durable": True}, {}, "'durable' {}: received 'false' but current is 'true'"),
        (
            {},
            {"auto_delete": True},
            "'auto_delete' {}: received 'true' but current is 'false'",
        ),
        (
            {"auto_delete": True, "durable": True},
            {"arguments": {TTL: 1}},
            "'durable' {}: received 'false' but current is 'true'",
        ),
        (
            {},
            {"arguments": {TTL: 60000}},
            (
                "'x-message-ttl' {}: received the value '60000' "
                "of type 'unsignedshort' but current is none"
            ),
        ),
        (
            {"arguments": {TTL: 600000}},
            {},
            (
                "'x-message-ttl' {}: received none "
                "but current is the value '600000' of type 'signedint'"
            ),
        ),
        (
            {"arguments": {TTL: 60000}},
            {"arguments": {TTL: 100}},
            "'x-message-ttl' {}: received '100' but current is '60000'",
        ),
        (
            {"arguments": {"x-dead-letter-exchange": "a"}},
            {"arguments": {"x-dead-letter-exchange": "b"}},
            "'x-dead-letter-exchange' {}: received 'b' but current is 'a'",
        ),
        (
            {"durable": True},
            {"durable": True, "arguments": {"x-queue-type": "quorum"}},
            (
                "'x-queue-type' {}: received the value 'quorum' of type 'longstr' "
                "but current is none"
            ),
        ),
    ],
)
def test_declaring_it_otherwise_is_406(
    client: RawClient,
    fresh_name: Callable[[], str],
    first: dict[str, object],
    second: dict[str, object],
    text: str,
) -> None:
    name = fresh_name()
    declare(client, name, **first)
    client.send_method(1, Queue.Declare(0, name, **second))  # type: ignore[arg-type]
    difference = text.format(f"for queue '{name}' in vhost '/'")
    client.expect_refusal(
        refused(406, f"PRECONDITION_FAILED - inequivalent arg {difference}")
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"x-anything": 1}, {"x-anything": 2}),
        ({"x-anything": 1}, {}),
        ({}, {"x-queue-type": "classic"}),
    ],
)
def test_arguments_that_mean_nothing_are_not_compared(
    client: RawClient,
    fresh_name: Callable[[], str],
    first: dict[str, object],
    second: dict[str, object],
) -> None:
    name = fresh_name()
    declare(client, name, arguments=first)
    declare(client, name, arguments=second)


def test_integers_of_other_sizes_are_equal(
    client: RawClient, fresh_name: Callable[[], str]
) -> None:
    name = fresh_name()
    key = shortstr(TTL.encode())
    start = struct.pack(">HHH", 50, 10, 0) + shortstr(name.encode()) + b"\x00"
    for value in (b"l" + struct.pack(">q", 60000), b"I" + struct.pack(">i", 60000)):
        client.send_frame(METHOD, 1, start + longstr(key + value))
        client.expect_method(1, Queue.DeclareOk)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({TTL: -1}, "'x-message-ttl' {}: {{value_negative,-1}}"),
        ({TTL: "abc"}, "'x-message-ttl' {}: \"expected integer, got longstr\""),
        ({"x-expires": 0}, "'x-expires' {}: {{value_zero,0}}"),
        ({"x-max-length": -5}, "'x-max-length' {}: {{value_negative,-5}}"),
        ({"x-max-priority": 256}, "'x-max-priority' {}: {{max_value_exceeded,256}}"),
        (
            {"x-dead-letter-routing-key": "a"},
            "'x-dead-letter-routing-key' {}: routing_key_but_no_dlx_defined",
        ),
        ({"x-overflow": "a"}, "'x-overflow' {}: invalid_overflow"),
        ({"x-queue-type": "a"}, "'x-queue-type' {}: \"unsupported queue type 'a'\""),
    ],
)
def test_an_argument_out_of_range_is_406(
    client: RawClient,
    fresh_name: Callable[[], str],
    arguments: dict[str, object],
    text: str,
) -> None:
    name = fresh_name()
    client.send_method(1, Queue.Declare(0, name, arguments=arguments))  # type: ignore[arg-type]
    reason = text.format(f"for queue '{name}' in vhost '/'")
    client.expect_refusal(refused(406, f"PRECONDITION_FAILED - invalid arg {reason}"))


def test_a_name_with_the_reserved_prefix_is_403(client: RawClient) -> None:
    client.send_method(1, Queue.Declare(0, "amq.new"))
    text = "ACCESS_REFUSED - queue name 'amq.new' contains reserved prefix 'amq.*'"
    client.expect_refusal(refused(403, text))


@pytest.mark.parametrize("name", ["nowhere", "amq.nowhere", ""])
def test_passive_declare_of_a_missing_queue_is_404(
    client: RawClient, name: str
) -> None:
    client.send_method(1, Queue.Declare(0, name, passive=True))
    client.expect_refusal(refused(404, f"NOT_FOUND - no queue '{name}' in vhost '/'"))


@pytest.mark.parametrize(
    ("method", "class_id", "method_id"),
    [
        (Queue.Bind(0, "", "amq.direct", "k"), 50, 20),
        (Queue.Purge(0, ""), 50, 30),
        (Queue.Delete(0, ""), 50, 40),
        (Basic.Consume(0, ""), 60, 20),
        (Basic.Get(0, ""), 60, 70),
    ],
    ids=["bind", "purge", "delete", "consume", "get"],
)
def test_no_name_without_a_declared_queue_is_404(
    client: RawClient, method: base.Frame, class_id: int, method_id: int
) -> None:
    client.send_method(1, method)
    text = "NOT_FOUND - no previously declared queue"
    client.expect_refusal(channel_closed(404, text, class_id, method_id))


def test_no_name_means_the_queue_declared_last_on_the_channel(
    client: RawClient,
) -> None:
    client.temporary_queue()
    queue = client.temporary_queue()
    client.call(1, Queue.Bind(0, "", "amq.direct", ""), Queue.BindOk)
    # The routing key was empty as well: then it is the queue's name.
    client.publish(1, Basic.Publish(0, "amq.direct", queue), b"x")
    client.send_method(1, Basic.Get(0, "", True))
    assert client.expect_message(1, Basic.GetOk).body == b"x"
    assert client.call(1, Queue.Delete(0, ""), Queue.DeleteOk).message_count == 0


@pytest.mark.parametrize(
    ("method", "class_id", "method_id"),
    [
        (Queue.Purge(0, "nowhere"), 50, 30),
        (Basic.Consume(0, "nowhere"), 60, 20),
        (Basic.Get(0, "nowhere"), 60, 70),
        (Queue.Bind(0, "nowhere", "amq.direct", "k"), 50, 20),
    ],
    ids=["purge", "consume", "get", "bind"],
)
def test_a_missing_queue_is_404(
    client: RawClient, method: base.Frame, class_id: int, method_id: int
) -> None:
    client.send_method(1, method)
    text = "NOT_FOUND - no queue 'nowhere' in vhost '/'"
    client.expect_refusal(channel_closed(404, text, class_id, method_id))


@pytest.mark.parametrize("name", ["nowhere", "amq.nowhere"])
def test_deleting_a_missing_queue_is_answered(client: RawClient, name: str) -> None:
    reply = client.call(1, Queue.Delete(0, name), Queue.DeleteOk)
    assert reply.message_count == 0


def test_purge_and_delete_count_the_ready_messages(client: RawClient) -> None:
    queue = client.temporary_queue()
    for _ in range(5):
        client.publish_to_queue(queue, b"x")
    client.get(queue, no_ack=False)
    reply = client.call(1, Queue.Purge(0, queue), Queue.PurgeOk)
    assert reply.message_count == 4
    client.publish_to_queue(queue, b"x")
    deleted = client.call(1, Queue.Delete(0, queue), Queue.DeleteOk)
    assert deleted.message_count == 1


def test_a_purge_leaves_unacknowledged_messages(client: RawClient) -> None:
    queue = client.temporary_queue()
    client.publish_to_queue(queue, b"taken")
    client.publish_to_queue(queue, b"ready")
    client.get(queue, no_ack=False)
    client.call(1, Queue.Purge(0, queue), Queue.PurgeOk)
    client.send_method(1, Basic.Nack(1))
    message = client.get(queue)
    assert message is not None
    assert message.body == b"taken"
    assert client.get(queue) is None


def test_deleting_a_queue_with_consumers_is_406_if_unused(client: RawClient) -> None:
    queue = client.temporary_queue()
    client.call(1, Basic.Consume(0, queue), Basic.ConsumeOk)
    client.send_method(1, Queue.Delete(0, queue, if_unused=True))
    text = f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' in use"
    client.expect_refusal(refused(406, text, 40))


def test_deleting_a_queue_with_messages_is_406_if_empty(client: RawClient) -> None:
    queue = client.temporary_queue()
    client.publish_to_queue(queue, b"x")
    client.send_method(1, Queue.Delete(0, queue, if_empty=True))
    text = f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty"
    client.expect_refusal(refused(406, text, 40))


def test_unacknowledged_messages_do_not_keep_a_queue_from_being_deleted_if_empty(
    client: RawClient,
) -> None:
    queue = client.temporary_queue()
    client.publish_to_queue(queue, b"x")
    client.get(queue, no_ack=False)
    client.call(1, Queue.Delete(0, queue, if_empty=True), Queue.DeleteOk)


@pytest.mark.parametrize(
    ("make", "class_id", "method_id"),
    [
        (lambda queue: Queue.Declare(0, queue), 50, 10),
        (lambda queue: Queue.Declare(0, queue, exclusive=True), 50, 10),
        (lambda queue: Queue.Declare(0, queue, passive=True), 50, 10),
        (lambda queue: Queue.Declare(0, queue, durable=True), 50, 10),
        (lambda queue: Queue.Bind(0, queue, "amq.direct", "k"), 50, 20),
        (lambda queue: Queue.Purge(0, queue), 50, 30),
        (lambda queue: Queue.Delete(0, queue), 50, 40),
        (lambda queue: Basic.Consume(0, queue), 60, 20),
        (lambda queue: Basic.Get(0, queue), 60, 70),
    ],
    ids=[
        "declare",
        "declare exclusive",
        "declare passive",
        "declare durable",
        "bind",
        "purge",
        "delete",
        "consume",
        "get",
    ],
)
def test_an_exclusive_queue_is_405_for_other_connections(
    client: RawClient,
    connect: Callable[[], RawClient],
    fresh_name: Callable[[], str],
    make: Callable[[str], base.Frame],
    class_id: int,
    method_id: int,
) -> None:
    name = fresh_name()
    declare(client, name, exclusive=True)
    other = connect()
    other.send_method(1, make(name))
    text = LOCKED.format(name)
    other.expect_refusal(channel_closed(405, text, class_id, method_id))


@pytest.mark.parametrize("was_exclusive", [True, False])
def test_declaring_with_another_exclusive_is_405_even_for_the_owner(
    client: RawClient, fresh_name: Callable[[], str], was_exclusive: bool
) -> None:
    name = fresh_name()
    declare(client, name, exclusive=was_exclusive)
    client.send_method(1, Queue.Declare(0, name, exclusive=not was_exclusive))
    client.expect_refusal(refused(405, LOCKED.format(name)))


def test_durable_means_nothing_for_an_exclusive_queue(
    client: RawClient, fresh_name: Callable[[], str]
) -> None:
    name = fresh_name()
    declare(client, name, exclusive=True, durable=True)
    declare(client, name, exclusive=True, durable=False)


def test_others_may_publish_to_an_exclusive_queue(
    client: RawClient, connect: Callable[[], RawClient]
) -> None:
    queue = client.temporary_queue()
    other = connect()
    other.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
    other.publish_to_queue(queue, b"x")
    other.expect_method(1, Basic.Ack)
    message = client.get(queue)
    assert message is not None
    assert message.body == b"x"


def test_an_exclusive_queue_is_gone_when_its_connection_has_closed(
    client: RawClient,
    connect: Callable[[], RawClient],
    fresh_name: Callable[[], str],
) -> None:
    name = fresh_name()
    owner = connect()
    declare(owner, name, exclusive=True)
    owner.close()
    declare(client, name, exclusive=True)


def test_an_auto_delete_queue_goes_with_the_connection_of_its_last_consumer(
    client: RawClient, connect: Callable[[], RawClient], fresh_name: Callable[[], str]
) -> None:
    name = fresh_name()
    consumer = connect()
    declare(consumer, name, auto_delete=True)
    consumer.call(1, Basic.Consume(0, name, "one"), Basic.ConsumeOk)
    consumer.close()
    client.send_method(1, Queue.Declare(0, name, passive=True))
    client.expect_refusal(refused(404, f"NOT_FOUND - no queue '{name}' in vhost '/'"))


@pytest.mark.parametrize("by", ["cancel", "channel.close"])
def test_an_auto_delete_queue_goes_with_its_last_consumer(
    client: RawClient, fresh_name: Callable[[], str], by: str
) -> None:
    name = fresh_name()
    declare(client, name, auto_delete=True)
    client.open_channel(2)
    for tag in ("one", "two"):
        client.call(2, Basic.Consume(0, name, tag), Basic.ConsumeOk)
    client.call(2, Basic.Cancel("one"), Basic.CancelOk)
    declare(client, name, passive=True)
    if by == "cancel":
        client.call(2, Basic.Cancel("two"), Basic.CancelOk)
    else:
        close = commands.Channel.Close(200, "bye", 0, 0)
        client.call(2, close, commands.Channel.CloseOk)
    client.send_method(1, Queue.Declare(0, name, passive=True))
    client.expect_refusal(refused(404, f"NOT_FOUND - no queue '{name}' in vhost '/'"))


def test_an_auto_delete_queue_that_never_had_a_consumer_stays(
    client: RawClient, fresh_name: Callable[[], str]
) -> None:
    name = fresh_name()
    declare(client, name, auto_delete=True)
    client.publish_to_queue(name, b"x")
    assert client.get(name) is not None
    declare(client, name, passive=True)
