"""pika: exchanges of every type, queues of every kind, and how they are bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
import pika.exceptions
import pytest

Name = Callable[[str], str]


def bodies(channel: Any, queue: str) -> list[bytes]:
    """Take everything out of a queue."""
    found: list[bytes] = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append(body)


def bound_queue(channel: Any, exchange: str, *keys: str, **arguments: Any) -> str:
    queue = str(channel.queue_declare("", exclusive=True).method.queue)
    for key in keys:
        channel.queue_bind(queue, exchange, key, arguments=arguments or None)
    return queue


@pytest.fixture
def exchange(channel: Any, name: Name) -> Callable[..., str]:
    """Declare an exchange and return its name."""

    def declare(exchange_type: str, **fields: Any) -> str:
        made = name(exchange_type)
        channel.exchange_declare(made, exchange_type, **fields)
        return made

    return declare


def test_direct_delivers_by_the_whole_key(
    channel: Any, exchange: Callable[..., str]
) -> None:
    direct = exchange("direct", durable=True)
    one = bound_queue(channel, direct, "a", "b")
    other = bound_queue(channel, direct, "b")
    for key in ("a", "b", "c", ""):
        channel.basic_publish(direct, key, key.encode())
    assert bodies(channel, one) == [b"a", b"b"]
    assert bodies(channel, other) == [b"b"]


def test_fanout_delivers_everything(channel: Any, exchange: Callable[..., str]) -> None:
    fanout = exchange("fanout")
    queues = [bound_queue(channel, fanout, "") for _ in range(3)]
    channel.basic_publish(fanout, "whatever", b"x")
    assert [bodies(channel, queue) for queue in queues] == [[b"x"]] * 3


@pytest.mark.parametrize(
    ("pattern", "keys"),
    [
        ("a.*", ["a.b"]),
        ("*.b", ["a.b"]),
        ("a.#", ["a", "a.b", "a.b.c"]),
        ("#", ["a", "a.b", "a.b.c", "", "x"]),
        ("#.c", ["a.b.c"]),
        ("a.*.c", ["a.b.c"]),
        # An empty key has no words, not one empty word.
        ("*", ["a", "x"]),
        ("", [""]),
    ],
)
def test_topic_delivers_by_pattern(
    channel: Any, exchange: Callable[..., str], pattern: str, keys: list[str]
) -> None:
    topic = exchange("topic")
    queue = bound_queue(channel, topic, pattern)
    for key in ("a", "a.b", "a.b.c", "", "x"):
        channel.basic_publish(topic, key, key.encode())
    assert bodies(channel, queue) == [key.encode() for key in keys]


@pytest.mark.parametrize(
    ("arguments", "matching"),
    [
        ({"x-match": "all", "kind": "pdf", "pages": 2}, [b"both"]),
        ({"kind": "pdf", "pages": 2}, [b"both"]),
        ({"x-match": "any", "kind": "pdf", "pages": 2}, [b"both", b"kind"]),
        ({"x-match": "all", "pages": None}, [b"both", b"other"]),
        ({"x-match": "all"}, [b"both", b"kind", b"other", b"none"]),
        ({"x-match": "any"}, []),
    ],
)
def test_headers_delivers_by_the_headers(
    channel: Any,
    exchange: Callable[..., str],
    arguments: dict[str, Any],
    matching: list[bytes],
) -> None:
    headers = exchange("headers")
    queue = str(channel.queue_declare("", exclusive=True).method.queue)
    channel.queue_bind(queue, headers, "", arguments=arguments)
    messages: dict[bytes, Any] = {
        b"both": {"kind": "pdf", "pages": 2, "more": True},
        b"kind": {"kind": "pdf"},
        b"other": {"kind": "doc", "pages": 3},
        b"none": None,
    }
    for body, table in messages.items():
        properties = pika.BasicProperties(headers=table)
        channel.basic_publish(headers, "", body, properties)
    assert bodies(channel, queue) == matching


def test_unbinding_ends_the_delivery(
    channel: Any, exchange: Callable[..., str]
) -> None:
    direct = exchange("direct")
    queue = bound_queue(channel, direct, "a", "b")
    channel.queue_unbind(queue, direct, "a")
    for key in ("a", "b"):
        channel.basic_publish(direct, key, key.encode())
    assert bodies(channel, queue) == [b"b"]


def test_exchanges_may_be_bound_to_exchanges(
    channel: Any, exchange: Callable[..., str]
) -> None:
    source, destination = exchange("topic"), exchange("fanout", internal=True)
    queue = bound_queue(channel, destination, "")
    channel.exchange_bind(destination, source, "logs.#")
    channel.basic_publish(source, "logs.error", b"first")
    channel.exchange_unbind(destination, source, "logs.#")
    channel.basic_publish(source, "logs.error", b"second")
    assert bodies(channel, queue) == [b"first"]


def test_nobody_publishes_to_an_internal_exchange(
    channel: Any, connection: Any, exchange: Callable[..., str]
) -> None:
    internal = exchange("fanout", internal=True)
    channel.basic_publish(internal, "", b"x")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.queue_declare("", exclusive=True)
    assert caught.value.reply_code == 403
    assert caught.value.reply_text == (
        f"ACCESS_REFUSED - cannot publish to internal exchange '{internal}' "
        "in vhost '/'"
    )


def test_the_alternate_exchange_gets_the_rest(
    channel: Any, exchange: Callable[..., str]
) -> None:
    alternate = exchange("fanout")
    direct = exchange("direct", arguments={"alternate-exchange": alternate})
    rest, routed = (
        bound_queue(channel, alternate, ""),
        bound_queue(channel, direct, "a"),
    )
    for key in ("a", "b"):
        channel.basic_publish(direct, key, key.encode())
    assert (bodies(channel, routed), bodies(channel, rest)) == ([b"a"], [b"b"])


def test_an_auto_delete_exchange_goes_with_its_last_queue(
    channel: Any, connection: Any, exchange: Callable[..., str]
) -> None:
    fanout = exchange("fanout", auto_delete=True)
    queue = bound_queue(channel, fanout, "")
    channel.exchange_declare(fanout, passive=True)
    channel.queue_delete(queue)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.exchange_declare(fanout, passive=True)
    assert caught.value.reply_code == 404


def test_an_exchange_in_use_is_not_deleted_if_unused(
    channel: Any, exchange: Callable[..., str]
) -> None:
    fanout = exchange("fanout")
    bound_queue(channel, fanout, "")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.exchange_delete(fanout, if_unused=True)
    assert caught.value.reply_code == 406
    assert caught.value.reply_text == (
        f"PRECONDITION_FAILED - exchange '{fanout}' in vhost '/' in use"
    )


def test_an_exchange_declared_otherwise_is_refused(
    channel: Any, exchange: Callable[..., str]
) -> None:
    direct = exchange("direct")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.exchange_declare(direct, "fanout")
    assert caught.value.reply_code == 406
    assert caught.value.reply_text == (
        f"PRECONDITION_FAILED - inequivalent arg 'type' for exchange '{direct}' "
        "in vhost '/': received 'fanout' but current is 'direct'"
    )


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("auto_delete", [False, True])
def test_a_queue_may_be_declared_again_the_same_way(
    channel: Any, name: Name, durable: bool, auto_delete: bool
) -> None:
    queue = name("queue")
    arguments = {"x-message-ttl": 60_000, "x-dead-letter-exchange": "amq.fanout"}
    for _ in range(2):
        channel.queue_declare(
            queue, durable=durable, auto_delete=auto_delete, arguments=arguments
        )
    assert channel.queue_declare(queue, passive=True).method.queue == queue


def test_a_queue_declared_otherwise_is_refused(channel: Any, name: Name) -> None:
    queue = name("queue")
    channel.queue_declare(queue, durable=True)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.queue_declare(queue)
    assert caught.value.reply_code == 406
    assert caught.value.reply_text == (
        f"PRECONDITION_FAILED - inequivalent arg 'durable' for queue '{queue}' "
        "in vhost '/': received 'false' but current is 'true'"
    )


def test_an_exclusive_queue_belongs_to_its_connection(
    amqp_url: str, channel: Any, queue: str
) -> None:
    with pika.BlockingConnection(pika.URLParameters(amqp_url)) as other:
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
            other.channel().basic_consume(queue, lambda *_: None)
    assert caught.value.reply_code == 405
    assert caught.value.reply_text.startswith(
        "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue "
        f"'{queue}' in vhost '/'."
    )


def test_an_exclusive_queue_goes_with_its_connection(
    amqp_url: str, channel: Any, name: Name
) -> None:
    queue = name("queue")
    with pika.BlockingConnection(pika.URLParameters(amqp_url)) as owner:
        owner.channel().queue_declare(queue, exclusive=True)
    # The name is free as soon as the owner has gone.
    channel.queue_declare(queue)


def test_a_server_names_a_queue_without_a_name(channel: Any, queue: str) -> None:
    assert queue.startswith("amq.gen-")


def test_purge_and_delete_tell_how_much_was_lost(channel: Any, queue: str) -> None:
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("", queue, b"x")
    assert channel.queue_declare(queue, passive=True).method.message_count == 3
    assert channel.queue_purge(queue).method.message_count == 3
    channel.basic_publish("", queue, b"x")
    assert channel.queue_delete(queue).method.message_count == 1


def test_a_queue_with_messages_is_not_deleted_if_empty(
    channel: Any, queue: str
) -> None:
    channel.basic_publish("", queue, b"x")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.queue_delete(queue, if_empty=True)
    assert caught.value.reply_code == 406
    assert caught.value.reply_text == (
        f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty"
    )


def test_a_queue_with_consumers_is_not_deleted_if_unused(
    channel: Any, queue: str
) -> None:
    channel.basic_consume(queue, lambda *_: None)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.queue_delete(queue, if_unused=True)
    assert caught.value.reply_code == 406
    assert caught.value.reply_text == (
        f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' in use"
    )


def test_names_of_the_broker_are_reserved_for_queues(channel: Any) -> None:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.queue_declare("amq.mine")
    assert caught.value.reply_code == 403
    assert caught.value.reply_text == (
        "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'"
    )


def test_names_of_the_broker_are_reserved_for_exchanges(channel: Any) -> None:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.exchange_declare("amq.mine")
    assert caught.value.reply_code == 403
    assert caught.value.reply_text == (
        "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'"
    )


def test_nothing_is_bound_to_the_default_exchange(channel: Any, queue: str) -> None:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.queue_bind(queue, "", "key")
    assert caught.value.reply_code == 403
    assert caught.value.reply_text == (
        "ACCESS_REFUSED - operation not permitted on the default exchange"
    )
