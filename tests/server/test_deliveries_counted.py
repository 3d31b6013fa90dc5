"""How often a message came back: x-delivery-count, and the limit that it runs into.

Every way to come back counts: RabbitMQ does not tell them apart before 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from pamqp import commands
from pamqp.commands import Basic, Queue

from tests.support.differences import Expectations
from tests.support.raw_client import Message, RawClient
from tests.support.waiting import eventually
from tests.support.wiring import Wiring

Connect = Callable[[], RawClient]
GiveBack = Callable[[RawClient, int], None]

PERSISTENT: Final = b"\x10\x00\x02"


@pytest.fixture
def dead(wiring: Wiring) -> str:
    """A queue for dead letters."""
    return wiring.queue()


@pytest.fixture
def queue(wiring: Wiring, dead: str) -> Iterator[str]:
    """A quorum queue that gives up when a message comes back for the second time."""
    name = wiring.fresh_name()
    arguments: Any = {
        "x-queue-type": "quorum",
        "x-delivery-limit": 1,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dead,
    }
    method = Queue.Declare(0, name, durable=True, arguments=arguments)
    wiring.client.call(1, method, Queue.DeclareOk)
    yield name
    wiring.client.call(1, Queue.Delete(0, name), Queue.DeleteOk)


def reject(client: RawClient, tag: int) -> None:
    client.send_method(1, Basic.Reject(tag, requeue=True))


def nack(client: RawClient, tag: int) -> None:
    client.send_method(1, Basic.Nack(tag, requeue=True))


def recover(client: RawClient, tag: int) -> None:
    client.call(1, Basic.Recover(requeue=True), Basic.RecoverOk)


def close_channel(client: RawClient, tag: int) -> None:
    close = commands.Channel.Close(200, "bye", 0, 0)
    client.call(1, close, commands.Channel.CloseOk)


def disconnect(client: RawClient, tag: int) -> None:
    client.disconnect()


def headers_of(message: Message) -> dict[str, Any]:
    properties = Basic.Properties()
    flags = int.from_bytes(message.properties[:2], "big")
    properties.unmarshal(flags, message.properties[2:])
    headers: dict[str, Any] = dict(properties.headers or {})
    return headers


def wait_for(client: RawClient, queue: str) -> Message:
    """Get the next message, to be acked, however long it takes to come."""
    found: list[Message] = []

    def is_there() -> bool:
        message = client.get(queue, no_ack=False)
        if message is not None:
            found.append(message)
        return bool(found)

    eventually(is_there)
    return found[0]


@pytest.mark.parametrize(
    "give_back", [reject, nack, recover, close_channel, disconnect]
)
def test_every_way_to_come_back_counts(
    wiring: Wiring, connect: Connect, queue: str, dead: str, give_back: GiveBack
) -> None:
    wiring.send("", queue, b"x", PERSISTENT)
    for count in (0, 1):
        client = connect()
        message = wait_for(client, queue)
        assert headers_of(message).get("x-delivery-count", 0) == count
        assert isinstance(message.method, Basic.GetOk)
        assert message.method.redelivered == (count > 0)
        give_back(client, message.method.delivery_tag or 0)
    (death,) = headers_of(wait_for(wiring.client, dead))["x-death"]
    assert (death["queue"], death["reason"]) == (queue, "delivery_limit")
    assert (death["count"], death["exchange"], death["routing-keys"]) == (
        1,
        "",
        [queue],
    )


def test_a_classic_queue_without_a_limit_counts_nothing(wiring: Wiring) -> None:
    name = wiring.queue()
    wiring.send("", name, b"x")
    for _ in range(3):
        message = wait_for(wiring.client, name)
        assert "x-delivery-count" not in headers_of(message)
        assert isinstance(message.method, Basic.GetOk)
        nack(wiring.client, message.method.delivery_tag or 0)


def test_a_negative_limit_is_none(wiring: Wiring, expectations: Expectations) -> None:
    name = wiring.fresh_name()
    arguments: Any = {"x-queue-type": "quorum", "x-delivery-limit": -1}
    method = Queue.Declare(0, name, durable=True, arguments=arguments)
    wiring.client.call(1, method, Queue.DeclareOk)
    wiring.send("", name, b"x", PERSISTENT)
    if expectations.differ("negative-delivery-limit"):
        message = wait_for(wiring.client, name)
        assert isinstance(message.method, Basic.GetOk)
        nack(wiring.client, message.method.delivery_tag or 0)
        wiring.send("", name, b"y", PERSISTENT)
        assert wait_for(wiring.client, name).body == b"y"
        return
    for count in range(5):
        message = wait_for(wiring.client, name)
        assert headers_of(message).get("x-delivery-count", 0) == count
        assert isinstance(message.method, Basic.GetOk)
        nack(wiring.client, message.method.delivery_tag or 0)


def test_without_an_exchange_for_it_a_message_that_came_back_too_often_is_gone(
    wiring: Wiring,
) -> None:
    name = wiring.fresh_name()
    arguments: Any = {"x-queue-type": "quorum", "x-delivery-limit": 0}
    method = Queue.Declare(0, name, durable=True, arguments=arguments)
    wiring.client.call(1, method, Queue.DeclareOk)
    wiring.send("", name, b"poison", PERSISTENT)
    message = wait_for(wiring.client, name)
    assert isinstance(message.method, Basic.GetOk)
    nack(wiring.client, message.method.delivery_tag or 0)
    wiring.send("", name, b"fine", PERSISTENT)
    assert wait_for(wiring.client, name).body == b"fine"
