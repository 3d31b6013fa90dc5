"""pika: what routing can do besides the four types of exchange.

Against RabbitMQ this needs the plugins rabbitmq_consistent_hash_exchange,
rabbitmq_random_exchange, rabbitmq_recent_history_exchange and rabbitmq_sharding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pika
import pika.exceptions
import pytest

Declare = Callable[..., str]


@pytest.fixture
def exchange(channel: Any, name: Callable[[str], str]) -> Declare:
    """Declare an exchange and return its name."""

    def declare(exchange_type: str, **arguments: Any) -> str:
        made = name(exchange_type)
        channel.exchange_declare(
            made,
            exchange_type,
            arguments={key.replace("_", "-"): arguments[key] for key in arguments},
        )
        return made

    return declare


def bound_queue(channel: Any, exchange: str, key: str = "") -> str:
    queue = str(channel.queue_declare("", exclusive=True).method.queue)
    channel.queue_bind(queue, exchange, key)
    return queue


def take(channel: Any, queue: str) -> list[tuple[Any, Any, str]]:
    """Take everything out of a queue: method, properties and text."""
    found: list[tuple[Any, Any, str]] = []
    while True:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append((method, properties, body.decode()))


def texts(channel: Any, queue: str) -> list[str]:
    return [text for _, _, text in take(channel, queue)]


# -- nothing gets lost --------------------------------------------------------


def test_orders_that_nobody_handles_are_collected(
    channel: Any, exchange: Declare
) -> None:
    channel.confirm_delivery()
    unrouted = exchange("fanout")
    orders = exchange("topic", alternate_exchange=unrouted)
    handled = bound_queue(channel, orders, "order.eu.*")
    collected = bound_queue(channel, unrouted)
    for key in ("order.eu.1", "order.us.2"):
        # With `mandatory` and confirms pika raises if a message comes back.
        channel.basic_publish(orders, key, key.encode(), mandatory=True)
    assert texts(channel, handled) == ["order.eu.1"]
    ((method, _, text),) = take(channel, collected)
    assert (method.exchange, method.routing_key, text) == (
        orders,
        "order.us.2",
        "order.us.2",
    )


def test_without_an_alternate_they_come_back(channel: Any, exchange: Declare) -> None:
    channel.confirm_delivery()
    orders = exchange("topic")
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish(orders, "order.us.2", b"", mandatory=True)


def test_two_exchanges_that_are_alternates_of_each_other_give_up(
    channel: Any, name: Callable[[str], str]
) -> None:
    channel.confirm_delivery()
    first, second = name("direct"), name("direct")
    for one, other in ((first, second), (second, first)):
        channel.exchange_declare(one, arguments={"alternate-exchange": other})
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish(first, "k", b"", mandatory=True)


# -- the sender says who gets it ----------------------------------------------


def test_a_message_with_copies(channel: Any, exchange: Declare) -> None:
    mail = exchange("direct")
    inbox = {who: bound_queue(channel, mail, who) for who in ("ann", "bob", "cat")}
    headers = {"CC": ["bob"], "BCC": ["cat"], "subject": "hello"}
    properties = pika.BasicProperties(headers=headers)
    channel.basic_publish(mail, "ann", b"text", properties)
    for queue in inbox.values():
        ((method, seen, text),) = take(channel, queue)
        assert text == "text"
        assert method.routing_key == "ann"
        assert seen.headers == {"CC": ["bob"], "subject": "hello"}


def test_copies_straight_to_queues(channel: Any, queue: str) -> None:
    other = str(channel.queue_declare("", exclusive=True).method.queue)
    properties = pika.BasicProperties(headers={"BCC": [other, queue]})
    channel.basic_publish("", queue, b"x", properties)
    assert texts(channel, queue) == ["x"]
    assert texts(channel, other) == ["x"]


def test_a_copy_that_is_no_list_closes_the_channel(channel: Any) -> None:
    channel.basic_publish("", "q", b"", pika.BasicProperties(headers={"CC": "bob"}))
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.basic_qos(prefetch_count=1)
    assert caught.value.reply_code == 406
    assert "unacceptable_type_in_header" in caught.value.reply_text


# -- exchanges behind exchanges -----------------------------------------------


def test_clients_publish_to_the_outer_exchange_only(
    channel: Any, exchange: Declare, name: Callable[[str], str]
) -> None:
    outer, inner = exchange("topic"), name("inner")
    channel.exchange_declare(inner, "direct", internal=True)
    channel.exchange_bind(inner, outer, "audit.#")
    queue = bound_queue(channel, inner, "audit.login")
    channel.basic_publish(outer, "audit.login", b"ann")
    assert texts(channel, queue) == ["ann"]
    channel.basic_publish(inner, "audit.login", b"mallory")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.basic_qos(prefetch_count=1)
    assert caught.value.reply_code == 403
    assert f"cannot publish to internal exchange '{inner}'" in caught.value.reply_text


def test_exchanges_bound_in_a_circle_deliver_once(
    channel: Any, exchange: Declare
) -> None:
    names = [exchange("fanout") for _ in range(3)]
    for index, one in enumerate(names):
        channel.exchange_bind(names[index - 1], one)
    queues = [bound_queue(channel, one) for one in names]
    channel.basic_publish(names[0], "", b"x")
    assert [texts(channel, queue) for queue in queues] == [["x"]] * 3


# -- sharing out --------------------------------------------------------------


def test_every_customer_stays_with_one_worker(channel: Any, exchange: Declare) -> None:
    orders = exchange("x-consistent-hash")
    workers = [bound_queue(channel, orders, weight) for weight in ("1", "1", "2")]
    for number in range(300):
        customer = f"customer-{number % 60}"
        channel.basic_publish(orders, customer, customer.encode())
    seen_by: dict[str, set[int]] = defaultdict(set)
    counts = []
    for index, queue in enumerate(workers):
        found = texts(channel, queue)
        counts.append(len(found))
        for customer in found:
            seen_by[customer].add(index)
    assert sum(counts) == 300
    assert len(seen_by) == 60
    assert all(len(seen) == 1 for seen in seen_by.values())
    assert all(count > 0 for count in counts)


@pytest.mark.parametrize("by", ["hash_header", "hash_property"])
def test_the_customer_may_be_in_the_message(
    channel: Any, exchange: Declare, by: str
) -> None:
    names = {"hash_header": "customer", "hash_property": "message_id"}
    orders = exchange("x-consistent-hash", **{by: names[by]})
    workers = [bound_queue(channel, orders, "1") for _ in range(3)]
    for number in range(90):
        customer = f"customer-{number % 30}"
        properties = pika.BasicProperties(
            headers={"customer": customer}, message_id=customer
        )
        channel.basic_publish(orders, f"order.{number}", customer.encode(), properties)
    found = [texts(channel, queue) for queue in workers]
    assert sum(map(len, found)) == 90
    assert all(len(one) == 3 * len(set(one)) for one in found)


def test_a_weight_must_be_a_number(channel: Any, exchange: Declare) -> None:
    orders = exchange("x-consistent-hash")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        bound_queue(channel, orders, "much")
    assert caught.value.reply_code == 406
    assert "The binding key must be an integer" in caught.value.reply_text


@pytest.mark.parametrize("exchange_type", ["x-random", "x-modulus-hash"])
def test_every_message_goes_to_one_of_the_workers(
    channel: Any, exchange: Declare, exchange_type: str
) -> None:
    jobs = exchange(exchange_type)
    workers = [bound_queue(channel, jobs, str(number)) for number in range(3)]
    for number in range(120):
        channel.basic_publish(jobs, f"job {number}", str(number).encode())
    found = [texts(channel, queue) for queue in workers]
    assert sorted(int(text) for one in found for text in one) == list(range(120))
    assert all(found)


# -- who comes late -----------------------------------------------------------


def test_who_joins_a_chat_sees_what_was_said_last(
    channel: Any, exchange: Declare
) -> None:
    chat = exchange("x-recent-history", x_recent_history_length=2)
    early = bound_queue(channel, chat)
    for text in ("hi", "anybody here?", "bye"):
        channel.basic_publish(chat, "", text.encode())
    secret = pika.BasicProperties(headers={"x-recent-history-no-store": True})
    channel.basic_publish(chat, "", b"the password is ...", secret)
    late = bound_queue(channel, chat)
    assert texts(channel, late) == ["anybody here?", "bye"]
    assert len(texts(channel, early)) == 4
    channel.basic_publish(chat, "", b"welcome")
    assert texts(channel, late) == ["welcome"]
    assert texts(channel, early) == ["welcome"]
