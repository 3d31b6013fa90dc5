"""Texts of queues are kept while nothing changes, one by one and in lists."""

from __future__ import annotations

from collections.abc import Coroutine

import pytest

from amqpd.broker.queues.queue import Queue
from amqpd.broker.vhosts.vhost import VirtualHost
from amqpd.http.pace import Pace
from amqpd.http.queue_texts import BLOCK_COUNT, SPARE, QueueTexts
from tests.support.connection_pair import Bench
from tests.support.control_plane import arguments
from tests.support.deliveries import message_of

COUNT = 2 * BLOCK_COUNT + 1


class Maker:
    """Makes texts and notes of which queues."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def __call__(self, queue: Queue) -> bytes:
        self.made.append(queue.name)
        return f"{queue.name}:{queue.ready_count}".encode()

    def names(self) -> list[str]:
        """Those of which it has made texts since the last time."""
        made, self.made = self.made, []
        return made


@pytest.fixture
def make() -> Maker:
    return Maker()


@pytest.fixture
def vhost(bench: Bench) -> VirtualHost:
    vhost = bench.broker.vhosts["/"]
    add(vhost, *(f"q{number:04}" for number in reversed(range(COUNT))))
    return vhost


def add(vhost: VirtualHost, *names: str) -> None:
    topology = vhost.topology
    for name in names:
        queue_id = topology.surroundings.take_transient_id()
        topology.make_queue(queue_id, name, False, False, None, arguments({}))


async def listed(texts: QueueTexts, vhost: VirtualHost, make: Maker) -> list[str]:
    pieces = await texts.list_of(vhost, make, Pace())
    return b",".join(pieces).decode().split(",")


def expected(vhost: VirtualHost) -> list[str]:
    queues = vhost.queues
    return [f"{name}:{queues[name].ready_count}" for name in sorted(queues)]


async def test_a_list_is_in_the_order_of_names(vhost: VirtualHost, make: Maker) -> None:
    assert await listed(QueueTexts(), vhost, make) == expected(vhost)
    assert sorted(make.names()) == sorted(vhost.queues)


async def test_only_what_has_changed_is_made_anew(
    vhost: VirtualHost, make: Maker
) -> None:
    texts = QueueTexts()
    await listed(texts, vhost, make)
    make.names()
    for name in ("q0001", f"q{BLOCK_COUNT:04}"):
        vhost.queues[name].publish(message_of(b"1"))
    assert await listed(texts, vhost, make) == expected(vhost)
    assert make.names() == ["q0001", f"q{BLOCK_COUNT:04}"]
    assert await listed(texts, vhost, make) == expected(vhost)
    assert make.names() == []


async def test_queues_that_come_and_go_are_noticed_and_the_others_kept(
    vhost: VirtualHost, make: Maker
) -> None:
    texts = QueueTexts()
    await listed(texts, vhost, make)
    make.names()
    add(vhost, "q0001a")
    vhost.delete_queue_now(vhost.queues["q0003"])
    assert await listed(texts, vhost, make) == expected(vhost)
    assert make.names() == ["q0001a"]


async def test_another_queue_of_the_same_name_is_another(
    vhost: VirtualHost, make: Maker
) -> None:
    texts = QueueTexts()
    await listed(texts, vhost, make)
    make.names()
    vhost.queues["q0003"].publish(message_of(b"1"))
    vhost.delete_queue_now(vhost.queues["q0003"])
    add(vhost, "q0003")
    assert await listed(texts, vhost, make) == expected(vhost)
    assert make.names() == ["q0003"]


async def test_what_one_queue_is_asked_for_is_in_the_next_list(
    vhost: VirtualHost, make: Maker
) -> None:
    texts = QueueTexts()
    await listed(texts, vhost, make)
    queue = vhost.queues["q0001"]
    queue.publish(message_of(b"1"))
    assert texts.text_of(queue, make) == b"q0001:1"
    make.names()
    assert texts.text_of(queue, make) == b"q0001:1"
    assert await listed(texts, vhost, make) == expected(vhost)
    assert make.names() == []


def at_once(coroutine: Coroutine[None, None, list[str]]) -> list[str]:
    """Run what only ever waits for its next slice."""
    while True:
        try:
            coroutine.send(None)
        except StopIteration as end:
            found: list[str] = end.value
            return found


async def test_an_older_list_that_goes_on_does_not_hide_a_change_from_a_newer_one(
    vhost: VirtualHost, make: Maker
) -> None:
    texts = QueueTexts()
    later = vhost.queues[f"q{BLOCK_COUNT:04}"]

    def interrupted(queue: Queue) -> bytes:
        if queue.name == "q0000" and "q9999" not in vhost.queues:
            # While the older one is at its first block.
            add(vhost, "q9999")
            at_once(listed(texts, vhost, make))
            later.publish(message_of(b"1"))
        return make(queue)

    await texts.list_of(vhost, interrupted, Pace())
    assert await listed(texts, vhost, make) == expected(vhost)


async def test_what_is_gone_is_forgotten_when_there_may_be_many(
    bench: Bench, make: Maker
) -> None:
    vhost = bench.broker.vhosts["/"]
    add(vhost, *(f"q{number:04}" for number in range(SPARE + 3)))
    texts = QueueTexts()
    for queue in list(vhost.queues.values()):
        texts.text_of(queue, make)
    for name in list(vhost.queues)[2:]:
        vhost.delete_queue_now(vhost.queues[name])
    texts.forget_gone(bench.broker.vhosts)
    assert len(texts) == 2


async def test_a_few_that_are_gone_are_kept(vhost: VirtualHost, make: Maker) -> None:
    texts = QueueTexts()
    await listed(texts, vhost, make)
    vhost.delete_queue_now(vhost.queues["q0000"])
    texts.forget_gone({"/": vhost})
    assert len(texts) == COUNT
