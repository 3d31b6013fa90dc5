"""Delayed messages, and those that wait to be tried again, survive SIGKILL, each once.

Publishers with confirms send messages with all kinds of delays, or consumers let every
message fail twice before they ack it. The broker is killed in the midst of it. After
the restart every confirmed message comes (again, unless it was acked), and none comes
twice. `AMQPD_FULL=1` runs all rounds, with memory for everything, too.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import aio_pika
import pika
import pika.exceptions
import pytest

from amqpd.testing import AmqpdServer
from tests.server.test_kill import (
    LITTLE_OF_EVERYTHING,
    SEED,
    Journal,
    body_of,
    kill_and_restart,
    message_name,
    run_aio_publishers,
)
from tests.support.waiting import PATIENCE_S

IS_FULL: Final = os.environ.get("AMQPD_FULL") == "1"
ROUNDS = 20 if IS_FULL else 1
KILL_BEFORE: Final = 3_000 if IS_FULL else 500
CONFIGS: Final = {"plenty": "", "little": LITTLE_OF_EVERYTHING}
DELAY_MAX_MS: Final = 600
PUBLISHERS: Final = 3
WINDOW: Final = 100
FAILURES: Final = 2


@pytest.fixture(scope="module", params=list(CONFIGS) if IS_FULL else ["little"])
def server(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[AmqpdServer]:
    data_dir: Path = tmp_path_factory.mktemp("kill-delays") / "data"
    with AmqpdServer(data_dir=data_dir, config=CONFIGS[request.param]) as running:
        yield running


async def publish_delayed(
    url: str, name: str, publisher: int, journal: Journal, chance: random.Random
) -> None:
    """Publish with delays until the broker is gone."""
    try:
        async with await aio_pika.connect(url) as connection:
            channel = await connection.channel(publisher_confirms=True)
            exchange = await channel.get_exchange(name)

            async def publish(number: int) -> None:
                message = aio_pika.Message(
                    body_of(publisher, number),
                    headers={"x-delay": chance.randrange(DELAY_MAX_MS)},
                    delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
                )
                await exchange.publish(message, "k")
                journal.confirm(publisher, number)

            first = 0
            while True:
                window = range(first, first + WINDOW)
                await asyncio.gather(*(publish(number) for number in window))
                first += WINDOW
    except (aio_pika.exceptions.AMQPError, OSError, asyncio.CancelledError):
        assert journal.is_due.is_set(), "the connection was lost before the kill"


def run_publishers(url: str, name: str, journal: Journal, seed: str) -> None:
    async def main() -> None:
        await asyncio.gather(
            *(
                publish_delayed(
                    url, name, number, journal, random.Random(f"{seed} {number}")
                )
                for number in range(PUBLISHERS)
            )
        )

    asyncio.run(main())


def fail_with_pika(url: str, queue: str, journal: Journal) -> None:
    """Let every message fail before it is acked, until the broker is gone."""
    try:
        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=50)
            for method, properties, body in channel.consume(
                queue, inactivity_timeout=0.2
            ):
                if method is None:
                    if journal.is_over.is_set():
                        return
                    continue
                tag = method.delivery_tag
                count = (properties.headers or {}).get("x-delivery-count", 0)
                if count >= FAILURES:
                    journal.ack_sent.add(message_name(body))
                    channel.basic_ack(tag)
                elif tag % 2:
                    channel.basic_reject(tag, requeue=True)
                else:
                    channel.basic_nack(tag, requeue=True)
    except (pika.exceptions.AMQPError, OSError):
        assert journal.is_due.is_set(), "the connection was lost before the kill"


def consume_until_quiet(
    url: str, queue: str, expected: set[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Take what comes until all that is expected has, and nothing more does."""
    found: list[tuple[int, int]] = []
    missing = set(expected)
    deadline = time.monotonic() + PATIENCE_S
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        # Whatever was published has been due for some time when nothing comes.
        quiet_s = DELAY_MAX_MS / 1000 + 0.2
        for method, _, body in channel.consume(queue, inactivity_timeout=quiet_s):
            if method is None:
                if not missing or time.monotonic() > deadline:
                    return found
                continue
            found.append(message_name(body))
            missing.discard(found[-1])
            channel.basic_ack(method.delivery_tag)
    return found


@pytest.mark.parametrize("round_number", range(ROUNDS))
def test_every_confirmed_message_comes_once_after_its_delay(
    server: AmqpdServer, round_number: int
) -> None:
    seed = f"{SEED} {round_number} delayed"
    kill_after = random.Random(seed).randrange(1, KILL_BEFORE)
    print(f"seed {SEED}, round {round_number}: killed after {kill_after} confirms")
    name = f"delayed-{round_number}"
    journal = Journal(kill_after)
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        channel.exchange_declare(
            name,
            "x-delayed-message",
            durable=True,
            arguments={"x-delayed-type": "direct"},
        )
        channel.queue_declare(name, durable=True)
        channel.queue_bind(name, name, "k")
    publishing = threading.Thread(
        target=run_publishers, args=(server.url, name, journal, seed)
    )
    kill_and_restart(server, journal, [publishing])
    found = consume_until_quiet(server.url, name, journal.confirmed)
    assert len(found) == len(set(found)), "a message came twice"
    assert journal.confirmed <= set(found), "a confirmed message is lost"


@pytest.mark.parametrize("round_number", range(ROUNDS))
def test_every_message_that_failed_comes_again_once(
    server: AmqpdServer, round_number: int
) -> None:
    kill_after = random.Random(f"{SEED} {round_number} retry").randrange(1, KILL_BEFORE)
    print(f"seed {SEED}, round {round_number}: killed after {kill_after} confirms")
    queue = f"retry-{round_number}"
    journal = Journal(kill_after)
    arguments: dict[str, Any] = {
        "x-delayed-retry-type": "all",
        "x-delayed-retry-min": 20,
        "x-delayed-retry-max": 30,
    }
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        connection.channel().queue_declare(queue, durable=True, arguments=arguments)
    targets = (run_aio_publishers, fail_with_pika, fail_with_pika)
    threads = [
        threading.Thread(target=target, args=(server.url, queue, journal))
        for target in targets
    ]
    kill_and_restart(server, journal, threads)
    expected = journal.confirmed - journal.ack_sent
    found = consume_until_quiet(server.url, queue, expected)
    assert len(found) == len(set(found)), "a message came twice"
    assert expected <= set(found), "a confirmed message is lost"
