"""Connections and channels of pika's blocking adapter, names that are cleaned up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest

Name = Callable[[str], str]


@pytest.fixture
def connection(amqp_url: str) -> Iterator[Any]:
    """An open connection."""
    connection = pika.BlockingConnection(pika.URLParameters(amqp_url))
    yield connection
    if connection.is_open:
        connection.close()


@pytest.fixture
def channel(connection: Any) -> Any:
    """An open channel."""
    return connection.channel()


@pytest.fixture(scope="session")
def janitor(amqp_url: str) -> Iterator[Any]:
    """A connection to delete on; nobody reads between two tests, so no heartbeats."""
    parameters = pika.URLParameters(amqp_url)
    parameters.heartbeat = 0
    with pika.BlockingConnection(parameters) as connection:
        yield connection


@pytest.fixture
def name(janitor: Any, make_name: Name) -> Iterator[Name]:
    """Make names; queues and exchanges that bear them are deleted afterwards."""
    made: list[str] = []

    def make(what: str) -> str:
        made.append(make_name(what))
        return made[-1]

    yield make
    if made:
        with janitor.channel() as channel:
            for one in made:
                channel.queue_delete(one)
                channel.exchange_delete(one)


@pytest.fixture
def queue(channel: Any) -> str:
    """The name of an exclusive queue."""
    return str(channel.queue_declare("", exclusive=True).method.queue)
