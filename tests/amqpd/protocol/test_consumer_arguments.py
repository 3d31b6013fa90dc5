"""What a consumer asks for: its priority, and the time that it may take."""

from __future__ import annotations

from typing import Any

import pytest
from pamqp import commands

from amqpd.broker.errors import PreconditionFailed
from amqpd.broker.queues.queue import Queue
from amqpd.protocol.consumer_arguments import (
    check_timeout,
    check_type,
    priority,
    timeout_ms,
)
from tests.support.connection_pair import Bench
from tests.support.control_plane import arguments

KEYS = {"x-priority": priority, "x-consumer-timeout": check_timeout}


def queue_with(bench: Bench, table: Any) -> Queue:
    declare = commands.Queue.Declare(queue="q", arguments=table)
    bench.connect().call(1, declare, commands.Queue.DeclareOk)
    return bench.broker.vhosts["/"].queues["q"]


@pytest.fixture
def queue(bench: Bench) -> Queue:
    return queue_with(bench, {})


@pytest.mark.parametrize("value", [-(1 << 40), -1, 0, 7, 1 << 40])
def test_a_priority_is_any_integer(queue: Queue, value: int) -> None:
    assert priority(queue, arguments({"x-priority": value})) == value


def test_who_says_nothing_has_priority_0_and_all_the_time(queue: Queue) -> None:
    said = arguments({"x-unknown": "anything"})
    assert (priority(queue, said), timeout_ms(queue, said.table)) == (0, 0)


@pytest.mark.parametrize(("own", "expected"), [({}, 70), (5, 5), (0, 0)])
def test_the_queues_timeout_is_for_who_says_nothing(
    bench: Bench, own: object, expected: int
) -> None:
    queue = queue_with(bench, {"x-consumer-timeout": 70})
    table = {"x-consumer-timeout": own} if isinstance(own, int) else {}
    assert timeout_ms(queue, arguments(dict(table)).table) == expected


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    ("value", "kind"),
    [("5", "longstr"), (True, "bool"), (None, "void"), ([1], "array")],
    ids=str,
)
def test_what_is_no_integer_is_refused(
    queue: Queue, key: str, value: object, kind: str
) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        KEYS[key](queue, arguments({key: value}))
    assert caught.value.text == (
        f"invalid arg '{key}' for queue 'q' in vhost '/': "
        f'"expected integer, got {kind}"'
    )


def test_a_negative_timeout_is_refused(queue: Queue) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        check_timeout(queue, arguments({"x-consumer-timeout": -1}))
    assert caught.value.text == (
        "invalid arg 'x-consumer-timeout' for queue 'q' in vhost '/': "
        "{value_negative,-1}"
    )


@pytest.mark.parametrize(
    "key", ["x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered"]
)
def test_what_streams_alone_can_do_is_refused(queue: Queue, key: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        check_type(queue, arguments({key: "first"}))
    assert caught.value.text == (
        f"invalid arg '{key}' for queue 'q' in vhost '/' of queue type "
        "rabbit_classic_queue"
    )


def test_what_queues_can_do_is_not_refused(queue: Queue) -> None:
    check_type(queue, arguments({"x-priority": 1, "x-unknown": "anything"}))
