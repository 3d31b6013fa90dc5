"""A confirmed message survives SIGKILL: real clients, a real process, a real disk.

Several pika and aio-pika connections publish persistent messages with confirms. At a
moment drawn at random the broker is killed. After the restart every confirmed message
must be there exactly once and in its place; one that was not confirmed may be there.
Every second round the queue has priorities, and every publisher one of its own.
All of it once with memory for everything, and once with so little, and with so small
files, that messages leave memory, files are merged and checkpoints are written all the
time.
The seed is printed; `AMQPD_KILL_SEED` sets it, `AMQPD_FULL=1` runs all rounds.
"""

import asyncio
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import aio_pika
import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from amqpd.testing import AmqpdServer

AIO_PUBLISHERS = 3
PIKA_PUBLISHERS = 2
PRIORITY_MAX = 3
WINDOW = 100
IS_FULL = os.environ.get("AMQPD_FULL") == "1"
ROUNDS = 20 if IS_FULL else 2
# Enough for dozens of the small files, and for more than the little memory there is.
MESSAGES_PER_ROUND = 20_000 if IS_FULL else 6_000
SEED = int(os.environ.get("AMQPD_KILL_SEED", "0")) or random.SystemRandom().getrandbits(
    32
)

BODY_PADDING = b"." * 200

LITTLE_OF_EVERYTHING = """
[memory]
cold_budget = 1_048_576
total_budget = 1_048_576
[store]
segment_size = 65_536
garbage_percent = 10
"""


class Journal:
    """What clients know: which messages were confirmed, received and acked."""

    def __init__(self, kill_after: int) -> None:
        self.confirmed: set[tuple[int, int]] = set()
        self.received: set[tuple[int, int]] = set()
        self.ack_sent: set[tuple[int, int]] = set()
        self.is_over = threading.Event()
        self.is_due = threading.Event()
        self._kill_after = kill_after
        self._lock = threading.Lock()

    def confirm(self, publisher: int, number: int) -> None:
        with self._lock:
            self.confirmed.add((publisher, number))
            if len(self.confirmed) >= self._kill_after:
                self.is_due.set()


def message_name(body: bytes) -> tuple[int, int]:
    publisher, number, _ = body.split(b" ", 2)
    return int(publisher), int(number)


def body_of(publisher: int, number: int) -> bytes:
    return b"%d %d " % (publisher, number) + BODY_PADDING


def publish_with_pika(url: str, queue: str, publisher: int, journal: Journal) -> None:
    properties = pika.BasicProperties(delivery_mode=2, priority=publisher)
    share = MESSAGES_PER_ROUND // (AIO_PUBLISHERS + PIKA_PUBLISHERS)
    try:
        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for number in range(share):
                channel.basic_publish("", queue, body_of(publisher, number), properties)
                journal.confirm(publisher, number)
    except (pika.exceptions.AMQPError, OSError):
        assert journal.is_due.is_set(), "the connection was lost before the kill"


async def publish_with_aio_pika(
    url: str, queue: str, publisher: int, journal: Journal
) -> None:
    share = MESSAGES_PER_ROUND // (AIO_PUBLISHERS + PIKA_PUBLISHERS)
    try:
        connection = await aio_pika.connect(url)
        async with connection:
            channel = await connection.channel(publisher_confirms=True)

            async def publish(number: int) -> None:
                message = aio_pika.Message(
                    body_of(publisher, number),
                    delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
                    priority=publisher,
                )
                await channel.default_exchange.publish(message, queue)
                journal.confirm(publisher, number)

            for first in range(0, share, WINDOW):
                await asyncio.gather(
                    *(publish(number) for number in range(first, first + WINDOW))
                )
    except (aio_pika.exceptions.AMQPError, OSError, asyncio.CancelledError):
        assert journal.is_due.is_set(), "the connection was lost before the kill"


def run_aio_publishers(url: str, queue: str, journal: Journal) -> None:
    async def main() -> None:
        await asyncio.gather(
            *(
                publish_with_aio_pika(url, queue, publisher, journal)
                for publisher in range(AIO_PUBLISHERS)
            )
        )

    asyncio.run(main())


def consume_with_pika(url: str, queue: str, journal: Journal) -> None:
    """Take messages and ack them in groups of ten, until the broker is gone."""
    try:
        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=50)
            unacked: list[tuple[int, int]] = []
            for method, _, body in channel.consume(queue, inactivity_timeout=0.2):
                if method is None:
                    if journal.is_over.is_set():
                        return
                    continue
                unacked.append(message_name(body))
                journal.received.add(unacked[-1])
                if len(unacked) == 10:
                    journal.ack_sent.update(unacked)
                    channel.basic_ack(method.delivery_tag, multiple=True)
                    unacked.clear()
    except (pika.exceptions.AMQPError, OSError):
        assert journal.is_due.is_set(), "the connection was lost before the kill"


def take_counted(channel: BlockingChannel, queue: str) -> list[tuple[int, int]]:
    """As many as the queue says that it has, in its order."""
    names: list[tuple[int, int]] = []
    count = channel.queue_declare(queue, passive=True).method.message_count
    if count:
        for method, _, body in channel.consume(queue):
            names.append(message_name(body))
            if len(names) == count:
                channel.basic_ack(method.delivery_tag, multiple=True)
                break
        channel.cancel()
    return names


def drain(url: str, queue: str) -> list[tuple[int, int]]:
    """Everything that is in the queue, in its order."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        names = take_counted(channel, queue)
        left = channel.queue_declare(queue, passive=True).method.message_count
        assert left == 0, "the broker counted fewer messages than it had"
    return names


def kill_and_restart(
    server: AmqpdServer, journal: Journal, threads: list[threading.Thread]
) -> None:
    """Kill the broker in the midst of what the threads do, and start it again."""
    for thread in threads:
        thread.start()
    assert journal.is_due.wait(60)
    server.kill()
    journal.is_over.set()
    for thread in threads:
        thread.join()
    server.start()


@pytest.fixture(
    scope="module", params=["", LITTLE_OF_EVERYTHING], ids=["plenty", "little"]
)
def server(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[AmqpdServer]:
    data_dir: Path = tmp_path_factory.mktemp("kill") / "data"
    with AmqpdServer(data_dir=data_dir, config=request.param) as running:
        yield running


@pytest.mark.parametrize("is_consumed", [False, True])
@pytest.mark.parametrize("round_number", range(ROUNDS))
def test_every_confirmed_message_survives_a_kill(
    server: AmqpdServer, round_number: int, is_consumed: bool
) -> None:
    chance = random.Random(SEED + 2 * round_number + is_consumed)
    kill_after = chance.randrange(1, MESSAGES_PER_ROUND)
    print(f"seed {SEED}, round {round_number}: killed after {kill_after} confirms")
    queue = f"kill-{round_number}-{is_consumed}"
    journal = Journal(kill_after)
    has_priorities = round_number % 2 == 1
    arguments_of_queue = {"x-max-priority": PRIORITY_MAX} if has_priorities else {}
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        connection.channel().queue_declare(
            queue, durable=True, arguments=arguments_of_queue
        )
    threads = [
        threading.Thread(target=run_aio_publishers, args=(server.url, queue, journal))
    ]
    for publisher in range(AIO_PUBLISHERS, AIO_PUBLISHERS + PIKA_PUBLISHERS):
        arguments = (server.url, queue, publisher, journal)
        threads.append(threading.Thread(target=publish_with_pika, args=arguments))
    if is_consumed:
        arguments_of_consumer = (server.url, queue, journal)
        threads.append(
            threading.Thread(target=consume_with_pika, args=arguments_of_consumer)
        )
    kill_and_restart(server, journal, threads)
    found = drain(server.url, queue)

    assert len(set(found)) == len(found), "a message is there twice"
    missing = journal.confirmed - set(found) - journal.ack_sent
    assert not missing, f"{len(missing)} confirmed messages are lost"
    for publisher in range(AIO_PUBLISHERS + PIKA_PUBLISHERS):
        numbers = [number for whose, number in found if whose == publisher]
        assert numbers == sorted(numbers), "messages are out of order"
    levels = [min(whose, PRIORITY_MAX) for whose, _ in found]
    if has_priorities:
        assert levels == sorted(levels, reverse=True), "a level was overtaken"
