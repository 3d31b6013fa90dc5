"""Reply queues: found by those who have the name, and by nobody else."""

from __future__ import annotations

import pytest

from amqpd.broker.errors import NotFound
from amqpd.broker.vhosts.reply_queues import (
    REPLY_TO,
    REPLY_TO_PREFIX,
    ReplyQueues,
    is_reply_name,
)
from amqpd.broker.vhosts.topology import default_route_key
from tests.support.connection_pair import Bench
from tests.support.deliveries import ConsumingChannel


@pytest.fixture
def replies(bench: Bench) -> ReplyQueues:
    return bench.broker.vhosts["/"].reply_queues


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        (REPLY_TO, True),
        (REPLY_TO_PREFIX, True),
        (REPLY_TO + ".x", True),
        (REPLY_TO + "x", False),
        ("amq.rabbitmq.reply-t", False),
        ("", False),
    ],
)
def test_a_name_means_direct_replies_or_not(name: str, is_one: bool) -> None:
    assert is_reply_name(name) == is_one


def test_every_name_is_another_one_and_long(replies: ReplyQueues) -> None:
    names = {replies.open().name for _ in range(20)}
    assert len(names) == 20
    assert {len(name) for name in names} == {len(REPLY_TO_PREFIX) + 22}
    assert all(name.startswith(REPLY_TO_PREFIX) for name in names)


def test_the_default_exchange_leads_there_and_no_list_names_it(
    bench: Bench, replies: ReplyQueues
) -> None:
    queue = replies.open()
    vhost = bench.broker.vhosts["/"]
    assert vhost.default_routes[default_route_key(queue.name)] is queue
    assert vhost.queues == {}
    assert not queue.durable


def test_a_name_is_known_while_its_queue_is_open(replies: ReplyQueues) -> None:
    queue = replies.open()
    replies.check(queue.name)
    assert replies.close(queue)
    with pytest.raises(NotFound) as caught:
        replies.check(queue.name)
    assert caught.value.text == f"no queue '{queue.name}' in vhost '/'"


def test_the_short_name_is_always_known(replies: ReplyQueues) -> None:
    replies.check(REPLY_TO)


def test_a_closed_queue_leads_nowhere_and_is_deleted(
    bench: Bench, replies: ReplyQueues
) -> None:
    queue = replies.open()
    replies.close(queue)
    assert bench.broker.vhosts["/"].default_routes == {}
    assert queue.is_deleted


def test_other_queues_are_not_closed(bench: Bench, replies: ReplyQueues) -> None:
    pair = bench.connect()
    pair.declare("q")
    queue = bench.broker.vhosts["/"].queues["q"]
    assert not replies.close(queue)
    assert not queue.is_deleted


def test_it_ends_with_its_consumer(bench: Bench, replies: ReplyQueues) -> None:
    queue = replies.open()
    channel = ConsumingChannel()
    channel.subscribe(queue, "t", no_ack=True)
    vhost = bench.broker.vhosts["/"]
    vhost.queue_unused(queue)
    assert not queue.is_deleted
    for source in channel.consuming.close():
        vhost.queue_unused(source)
    assert queue.is_deleted
    # A second time is once.
    vhost.queue_unused(queue)
