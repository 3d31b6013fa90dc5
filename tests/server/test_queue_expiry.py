"""x-expires: a queue that nobody uses is gone after its time, and no earlier."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pamqp import commands
from pamqp.commands import Basic, Queue

from amqpd.testing import AmqpdServer
from tests.support.raw_client import Endpoint, RawClient, channel_closed
from tests.support.waiting import has_waited

EXPIRES_MS = 600
TIMEOUT_S = 10.0


def declare(client: RawClient, name: str, **flags: bool) -> None:
    arguments = {"x-expires": EXPIRES_MS}
    sent = Queue.Declare(0, name, arguments=arguments, **flags)  # type: ignore[arg-type]
    client.call(1, sent, Queue.DeclareOk)


def is_there(client: RawClient, name: str) -> bool:
    """Find out without using the queue: only a queue takes a mandatory message."""
    client.publish(1, Basic.Publish(0, "", name, True))
    client.send_method(1, Basic.Qos(0, 0))
    received = client.next_frame().method
    if isinstance(received, Basic.QosOk):
        return True
    assert isinstance(received, Basic.Return)
    client.next_frame()
    client.expect_method(1, Basic.QosOk)
    return False


def wait_until_gone(client: RawClient, name: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while is_there(client, name):
        assert time.monotonic() < deadline


@pytest.mark.parametrize("durable", [False, True])
def test_an_unused_queue_ends_at_its_time(
    client: RawClient, fresh_name: Callable[[], str], durable: bool
) -> None:
    name = fresh_name()
    started = time.monotonic()
    declare(client, name, durable=durable)
    wait_until_gone(client, name)
    assert has_waited(started, EXPIRES_MS)


def test_the_clock_begins_when_the_last_consumer_goes(
    client: RawClient, fresh_name: Callable[[], str]
) -> None:
    name, bystander = fresh_name(), fresh_name()
    declare(client, name)
    client.call(1, Basic.Consume(0, name, "t", no_ack=True), Basic.ConsumeOk)
    # Another queue's life is as long as what this one has to survive.
    declare(client, bystander)
    wait_until_gone(client, bystander)
    started = time.monotonic()
    client.call(1, Basic.Cancel("t"), Basic.CancelOk)
    wait_until_gone(client, name)
    assert has_waited(started, EXPIRES_MS)


@pytest.mark.parametrize(
    "use",
    [
        Queue.Declare(passive=True),
        Queue.Declare(arguments={"x-expires": EXPIRES_MS}),
        Basic.Get(no_ack=True),
    ],
    ids=["passive declare", "declare", "get"],
)
def test_asking_for_it_keeps_a_queue(
    client: RawClient, fresh_name: Callable[[], str], use: commands.Basic.Get
) -> None:
    name, bystander = fresh_name(), fresh_name()
    declare(client, name)
    declare(client, bystander)
    use.queue = name
    while is_there(client, bystander):
        client.send_method(1, use)
        client.next_frame()
    assert is_there(client, name)
    wait_until_gone(client, name)


@pytest.mark.parametrize("use", [Queue.Purge(), None], ids=["purge", "publish"])
def test_purging_and_publishing_do_not_keep_a_queue(
    client: RawClient, fresh_name: Callable[[], str], use: Queue.Purge | None
) -> None:
    name = fresh_name()
    declare(client, name)
    deadline = time.monotonic() + TIMEOUT_S
    while is_there(client, name):
        assert time.monotonic() < deadline
        if use is not None:
            use.queue = name
            client.send_method(1, use)
            if isinstance(client.next_frame().method, commands.Channel.Close):
                client.send_method(1, commands.Channel.CloseOk())
                client.open_channel()


def test_an_expired_queue_is_404(
    client: RawClient, fresh_name: Callable[[], str]
) -> None:
    name = fresh_name()
    declare(client, name)
    wait_until_gone(client, name)
    client.send_method(1, Queue.Declare(0, name, passive=True))
    text = f"NOT_FOUND - no queue '{name}' in vhost '/'"
    client.expect_refusal(channel_closed(404, text, 50, 10))


def test_a_durable_queue_lives_its_time_anew_after_a_restart(tmp_path: Path) -> None:
    with AmqpdServer(data_dir=tmp_path) as server:
        endpoint = Endpoint.from_url(server.url)
        with RawClient(endpoint) as client:
            declare(client.open().open_channel(), "kept", durable=True)
        server.kill()
        server.start()
        started = time.monotonic()
        with RawClient(Endpoint.from_url(server.url)) as client:
            client.open().open_channel()
            assert is_there(client, "kept")
            wait_until_gone(client, "kept")
        assert time.monotonic() < started + TIMEOUT_S
        server.stop()
        server.start()
        with RawClient(Endpoint.from_url(server.url)) as client:
            assert not is_there(client.open().open_channel(), "kept")
