"""Dead letters survive SIGKILL, each once.

Publishers with confirms fill a queue whose messages expire, are too many, or are
rejected, and all become dead letters in another queue. The broker is killed in the
midst of it. After the restart, and when nothing is left to expire, every confirmed
message is a dead letter once, and none is there twice.

Where they are to arrive whatever happens (at-least-once), the other queue has room for
some of them only: the others are dead, and wait where they were, when the broker is
killed.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pika
import pika.exceptions
import pytest

from amqpd.testing import AmqpdServer
from tests.server.test_kill import (
    IS_FULL,
    LITTLE_OF_EVERYTHING,
    ROUNDS,
    SEED,
    Journal,
    drain,
    kill_and_restart,
    run_aio_publishers,
    take_counted,
)
from tests.support.waiting import eventually

KILL_BEFORE: Final = 3_000 if IS_FULL else 1_200

RULES: Final[dict[str, dict[str, Any]]] = {
    "expired": {"x-message-ttl": 3},
    "maxlen": {"x-max-length": 50, "x-message-ttl": 1000},
    "rejected": {"x-message-ttl": 1000},
}
NO_RULES: Final[dict[str, Any]] = {}
AT_LEAST_ONCE: Final[dict[str, Any]] = {
    "x-queue-type": "quorum",
    "x-overflow": "reject-publish",
    "x-dead-letter-strategy": "at-least-once",
}
#: Most that is published before the kill does not fit there.
ROOM: Final[dict[str, Any]] = {"x-max-length": 300, "x-overflow": "reject-publish"}


def reject_with_pika(url: str, queue: str, journal: Journal) -> None:
    """Reject whatever comes until the broker is gone."""
    try:
        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=50)
            for method, _, _ in channel.consume(queue, inactivity_timeout=0.2):
                if method is not None:
                    channel.basic_nack(method.delivery_tag, requeue=False)
                elif journal.is_over.is_set():
                    return
    except (pika.exceptions.AMQPError, OSError):
        assert journal.is_due.is_set(), "the connection was lost before the kill"


@pytest.fixture(
    scope="module", params=["", LITTLE_OF_EVERYTHING], ids=["plenty", "little"]
)
def server(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[AmqpdServer]:
    data_dir: Path = tmp_path_factory.mktemp("kill-moves") / "data"
    with AmqpdServer(data_dir=data_dir, config=request.param) as running:
        yield running


def declare(
    url: str,
    name: str,
    rules: Mapping[str, Any],
    dead_rules: Mapping[str, Any] = NO_RULES,
) -> None:
    arguments = {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": f"{name}-dead",
        **rules,
    }
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.queue_declare(f"{name}-dead", durable=True, arguments=dict(dead_rules))
        channel.queue_declare(name, durable=True, arguments=arguments)


def is_empty(url: str, queue: str) -> Callable[[], bool]:
    def ask() -> bool:
        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            declared = connection.channel().queue_declare(queue, passive=True)
            return not declared.method.message_count

    return ask


def kill_while_dying(
    server: AmqpdServer, queue: str, reason: str, journal: Journal
) -> None:
    """Kill the broker while messages come and die for a reason, and start it again."""
    threads = [
        threading.Thread(target=run_aio_publishers, args=(server.url, queue, journal))
    ]
    if reason == "rejected":
        rejecting = (server.url, queue, journal)
        threads.append(threading.Thread(target=reject_with_pika, args=rejecting))
    kill_and_restart(server, journal, threads)


@pytest.mark.parametrize("reason", list(RULES))
@pytest.mark.parametrize("round_number", range(ROUNDS))
def test_every_confirmed_message_is_a_dead_letter_once(
    server: AmqpdServer, round_number: int, reason: str
) -> None:
    chance = random.Random(f"{SEED} {round_number} {reason}")
    kill_after = chance.randrange(1, KILL_BEFORE)
    print(f"seed {SEED}, round {round_number}: killed after {kill_after} confirms")
    queue = f"moves-{round_number}-{reason}"
    journal = Journal(kill_after)
    declare(server.url, queue, RULES[reason])
    kill_while_dying(server, queue, reason, journal)
    eventually(is_empty(server.url, queue))
    found = drain(server.url, f"{queue}-dead")
    assert len(found) == len(set(found)), "a message is there twice"
    assert journal.confirmed <= set(found), "a confirmed message is lost"


@pytest.mark.parametrize("reason", ["rejected", "expired"][: 2 if IS_FULL else 1])
@pytest.mark.parametrize("round_number", range(ROUNDS if IS_FULL else 1))
def test_those_that_wait_for_room_arrive_once(
    server: AmqpdServer, round_number: int, reason: str
) -> None:
    chance = random.Random(f"{SEED} {round_number} {reason} at least once")
    kill_after = chance.randrange(1, KILL_BEFORE)
    print(f"seed {SEED}, round {round_number}: killed after {kill_after} confirms")
    queue = f"waits-{round_number}-{reason}"
    journal = Journal(kill_after)
    declare(server.url, queue, {**AT_LEAST_ONCE, **RULES[reason]}, ROOM)
    kill_while_dying(server, queue, reason, journal)
    found: list[tuple[int, int]] = []
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()

        def have_arrived() -> bool:
            found.extend(take_counted(channel, f"{queue}-dead"))
            return journal.confirmed <= set(found)

        eventually(have_arrived)
    assert len(found) == len(set(found)), "a message came twice"
