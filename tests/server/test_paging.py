"""More messages than memory: a real process, whose resident memory is looked at."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from amqpd.testing import AmqpdServer
from tests.support.waiting import eventually

COUNT = 10_000
BODY_SIZE = 3_000
MIB = 1024 * 1024

CONFIG = f"""
[memory]
cold_budget = {MIB}
total_budget = {MIB}
"""


@pytest.fixture
def server() -> Iterator[AmqpdServer]:
    with AmqpdServer(config=CONFIG) as running:
        yield running


def resident_size(server: AmqpdServer) -> int:
    assert server.pid is not None
    pages = Path(f"/proc/{server.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def fill(channel: BlockingChannel, queue: str, delivery_mode: int) -> None:
    properties = pika.BasicProperties(delivery_mode=delivery_mode)
    for number in range(COUNT):
        body = (b"%d " % number).ljust(BODY_SIZE, b".")
        channel.basic_publish("", queue, body, properties)


def count_of(channel: BlockingChannel, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def drain(channel: BlockingChannel, queue: str) -> None:
    """Take everything, in order."""
    channel.basic_qos(prefetch_count=300)
    deliveries = channel.consume(queue, inactivity_timeout=20)
    for expected, (method, _, body) in enumerate(deliveries):
        assert method is not None, f"nothing came after {expected} messages"
        assert int(body.split()[0]) == expected
        if (expected + 1) % 100 == 0:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if expected == COUNT - 1:
            break
    channel.cancel()


@pytest.mark.parametrize("durable", [True, False])
def test_a_backlog_does_not_stay_in_memory(server: AmqpdServer, durable: bool) -> None:
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=durable)
        before = resident_size(server)
        fill(channel, "q", 2 if durable else 1)
        assert count_of(channel, "q") == COUNT
        # What waits for the disk is in memory until that has it.
        eventually(lambda: resident_size(server) - before < COUNT * BODY_SIZE / 2)
        drain(channel, "q")
        assert count_of(channel, "q") == 0
        # The blocks of the segments that were read back may stay: 32 MiB at most.
        eventually(lambda: resident_size(server) - before < 2 * COUNT * BODY_SIZE)


def test_a_backlog_that_is_on_disk_only_is_there_after_a_kill(
    server: AmqpdServer,
) -> None:
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        properties = pika.BasicProperties(delivery_mode=2)
        for _ in range(199):
            channel.basic_publish("", "q", bytes(50_000), properties)
        method, _, body = channel.basic_get("q")
        assert method is not None
        assert len(body) == 50_000
        # Its confirm says that the disk has what came before, too.
        channel.basic_publish("", "q", bytes(50_000), properties)
    server.kill()
    server.start()
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        assert count_of(channel, "q") == 200
        method, _, body = channel.basic_get("q", auto_ack=True)
        assert len(body) == 50_000
        assert method.redelivered
        assert channel.queue_purge("q").method.message_count == 199
    server.kill()
    server.start()
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        assert count_of(connection.channel(), "q") == 0


def test_priorities_are_kept_without_memory_and_after_a_kill(
    server: AmqpdServer,
) -> None:
    priorities = [number * 7 % 10 for number in range(3_000)]
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        arguments = {"x-max-priority": 9}
        channel.queue_declare("p", durable=True, arguments=arguments)
        for number, priority in enumerate(priorities):
            properties = pika.BasicProperties(delivery_mode=2, priority=priority)
            body = (b"%d " % number).ljust(1_000, b".")
            channel.basic_publish("", "p", body, properties)
        channel.confirm_delivery()
        # Its confirm says that the disk has what came before, too.
        urgent = pika.BasicProperties(delivery_mode=2, priority=9)
        channel.basic_publish("", "p", b"3000 ", urgent)
    server.kill()
    server.start()
    numbers = [*range(3_000), 3_000]
    priorities.append(9)
    expected = sorted(numbers, key=lambda number: (-priorities[number], number))
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        assert count_of(channel, "p") == 3_001
        found: list[int] = []
        for method, _, body in channel.consume("p", inactivity_timeout=20):
            assert method is not None, f"nothing came after {len(found)} messages"
            found.append(int(body.split()[0]))
            channel.basic_ack(method.delivery_tag)
            if len(found) == len(expected):
                break
        channel.cancel()
        assert found == expected
        assert count_of(channel, "p") == 0
