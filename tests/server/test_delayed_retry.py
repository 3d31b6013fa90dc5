"""What comes back waits before it is tried again: on every type of queue.

RabbitMQ has it for quorum queues, from 4.3 on, so these run against our own broker.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pamqp import commands
from pamqp.commands import Basic, Queue

from amqpd.testing import AmqpdServer
from tests.server.conftest import FreshName
from tests.support.raw_client import Endpoint, Message, RawClient, channel_closed
from tests.support.waiting import has_waited

DELAY_MS = 60
RETRY = {"x-delayed-retry-type": "all", "x-delayed-retry-min": DELAY_MS}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpdServer]:
    directory: Path = tmp_path_factory.mktemp("retry") / "data"
    with AmqpdServer(data_dir=directory) as running:
        yield running


@pytest.fixture(scope="module")
def broker(server: AmqpdServer) -> Endpoint:
    """Our own broker, whatever the others are tested with."""
    return Endpoint.from_url(server.url)


@pytest.fixture(scope="module")
def janitor(broker: Endpoint) -> Iterator[RawClient]:
    """Who deletes what tests leave there."""
    with RawClient(broker) as janitor:
        yield janitor.open().open_channel()


def declare(client: RawClient, name: str, **more: object) -> None:
    table: Any = {**RETRY, **{f"x-{key.replace('_', '-')}": more[key] for key in more}}
    method = Queue.Declare(0, name, durable=True, arguments=table)
    client.call(1, method, Queue.DeclareOk)


def ready_count(client: RawClient, name: str) -> int:
    declared = client.call(1, Queue.Declare(0, name, passive=True), Queue.DeclareOk)
    return declared.message_count or 0


def wait_for(client: RawClient, queue: str) -> Message:
    while (message := client.get(queue, no_ack=False)) is None:
        time.sleep(0.005)
    return message


def tag_of(message: Message) -> int:
    assert isinstance(message.method, Basic.GetOk)
    return message.method.delivery_tag or 0


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize("is_nack", [False, True])
def test_what_comes_back_waits(
    client: RawClient, fresh_name: FreshName, kind: str, is_nack: bool
) -> None:
    queue = fresh_name()
    declare(client, queue, queue_type=kind)
    client.publish_to_queue(queue, b"x")
    tag = tag_of(wait_for(client, queue))
    started = time.monotonic()
    back = Basic.Nack(tag, requeue=True) if is_nack else Basic.Reject(tag, requeue=True)
    client.send_method(1, back)
    message = wait_for(client, queue)
    assert has_waited(started, DELAY_MS)
    assert isinstance(message.method, Basic.GetOk)
    assert message.method.redelivered
    assert b"x-delivery-count" in message.properties


@pytest.mark.parametrize(
    ("kind", "rejected_waits", "nacked_waits"),
    [
        ("failed", True, False),
        ("returned", False, True),
        ("all", True, True),
        ("disabled", False, False),
    ],
)
def test_reject_is_failed_and_nack_is_returned_and_what_waits_is_not_ready(
    client: RawClient,
    fresh_name: FreshName,
    kind: str,
    rejected_waits: bool,
    nacked_waits: bool,
) -> None:
    for back, waits in ((Basic.Reject, rejected_waits), (Basic.Nack, nacked_waits)):
        queue = fresh_name()
        declare(client, queue, delayed_retry_type=kind, delayed_retry_min=60_000)
        client.publish_to_queue(queue, b"x")
        tag = tag_of(wait_for(client, queue))
        client.send_method(1, back(tag, requeue=True))
        assert ready_count(client, queue) == (0 if waits else 1)


def test_what_is_lost_with_its_channel_has_failed(
    client: RawClient, fresh_name: FreshName
) -> None:
    queue = fresh_name()
    declare(client, queue, delayed_retry_type="failed", delayed_retry_min=60_000)
    client.publish_to_queue(queue, b"x")
    client.open_channel(2)
    client.send_method(2, Basic.Get(0, queue))
    client.expect_message(2, Basic.GetOk)
    close = commands.Channel.Close(200, "done", 0, 0)
    client.call(2, close, commands.Channel.CloseOk)
    assert ready_count(client, queue) == 0


def test_a_consumer_that_always_fails_is_not_kept_busy(
    client: RawClient, fresh_name: FreshName
) -> None:
    queue = fresh_name()
    declare(client, queue, delivery_limit=2)
    client.publish_to_queue(queue, b"x")
    client.call(1, Basic.Consume(0, queue, "tag"), Basic.ConsumeOk)
    started = time.monotonic()
    for _ in range(3):
        delivered = client.expect_message(1, Basic.Deliver).method
        assert isinstance(delivered, Basic.Deliver)
        client.send_method(1, Basic.Reject(delivered.delivery_tag or 0, requeue=True))
    # It waited once and twice as long: then it was too often.
    assert has_waited(started, 1.5 * DELAY_MS, waits=2)
    assert client.call(1, Queue.Purge(0, queue), Queue.PurgeOk).message_count == 0


def test_purge_and_delete_take_along_what_waits(
    client: RawClient, fresh_name: FreshName
) -> None:
    queue = fresh_name()
    declare(client, queue, delayed_retry_min=60_000)
    for end in (Queue.Purge(0, queue), Queue.Delete(0, queue)):
        client.publish_to_queue(queue, b"x")
        client.send_method(1, Basic.Reject(tag_of(wait_for(client, queue)), True))
        client.send_method(1, end)
        method = client.next_frame().method
        assert isinstance(method, (Queue.PurgeOk, Queue.DeleteOk))
        assert method.message_count == 1


def test_a_queue_where_something_waits_is_not_empty(
    client: RawClient, fresh_name: FreshName
) -> None:
    queue = fresh_name()
    declare(client, queue, delayed_retry_min=60_000)
    client.publish_to_queue(queue, b"x")
    client.send_method(1, Basic.Reject(tag_of(wait_for(client, queue)), True))
    client.send_method(1, Queue.Delete(0, queue, if_empty=True))
    text = f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty"
    client.expect_refusal(channel_closed(406, text, 50, 40))


def test_a_type_that_is_none_is_refused(
    client: RawClient, fresh_name: FreshName
) -> None:
    queue = fresh_name()
    table: Any = {"x-delayed-retry-type": "often"}
    client.send_method(1, Queue.Declare(0, queue, arguments=table))
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-delayed-retry-type' for queue '{queue}' "
        "in vhost '/': invalid_delayed_retry_type"
    )
    closed = client.expect_close(1)
    assert (closed.code, closed.text) == (406, text)


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_waits_goes_on_waiting_after_a_restart(
    server: AmqpdServer, is_killed: bool
) -> None:
    queue = f"restart-{is_killed}"
    arguments: dict[str, Any] = {**RETRY, "x-delayed-retry-min": 1500}
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(queue, durable=True, arguments=arguments)
        persistent = pika.BasicProperties(delivery_mode=2)
        channel.basic_publish("", queue, b"failed", persistent)
        method, _, _ = channel.basic_get(queue)
        due = time.time() + 1.5
        channel.basic_reject(method.delivery_tag, requeue=True)
        # What is confirmed later is on the disk later.
        channel.basic_publish("", queue, b"fresh", persistent)
    if is_killed:
        server.kill()
    else:
        server.stop()
    server.start()
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        deliveries = channel.consume(queue, auto_ack=True, inactivity_timeout=20)
        found = set()
        for method, properties, body in deliveries:
            found.add(body)
            if body == b"failed":
                assert time.time() >= due - 0.1, "it came too early"
                assert method.redelivered
                assert properties.headers == {"x-delivery-count": 1}
            if found == {b"failed", b"fresh"}:
                break
