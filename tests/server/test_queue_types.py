"""x-queue-type, and the arguments that belong to one type of queue or to both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from pamqp.commands import Basic, Queue

from tests.support.differences import Expectations
from tests.support.raw_client import RawClient, channel_closed, connection_closed

FreshName = Callable[[], str]

QUORUM: Final = {"x-queue-type": "quorum"}
DECLARE: Final = (50, 10)


def declare(
    client: RawClient, name: str, arguments: dict[str, Any], **properties: bool
) -> None:
    method = Queue.Declare(0, name, arguments=arguments, **properties)
    client.call(1, method, Queue.DeclareOk)


def expect_refused(
    client: RawClient, name: str, arguments: dict[str, Any], reason: str, **is_so: bool
) -> None:
    """Declare; the channel must be closed for this reason, `{}` is the queue."""
    client.send_method(1, Queue.Declare(0, name, arguments=arguments, **is_so))
    text = "PRECONDITION_FAILED - " + reason.format(f"queue '{name}' in vhost '/'")
    client.expect_refusal(channel_closed(406, text, *DECLARE))


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"durable": False}, "non-durable"),
        ({"durable": True, "exclusive": True}, "exclusive-owner"),
        ({"durable": True, "auto_delete": True}, "auto-delete"),
    ],
)
def test_a_quorum_queue_is_durable_and_stays(
    client: RawClient, fresh_name: FreshName, properties: dict[str, bool], told: str
) -> None:
    reason = f"invalid property '{told}' for {{}}"
    expect_refused(client, fresh_name(), QUORUM, reason, **properties)


def test_a_quorum_queue_has_a_name_of_its_own(client: RawClient) -> None:
    reason = "Cannot declare a server-named queue for type rabbit_quorum_queue"
    expect_refused(client, "", QUORUM, reason, durable=True)


@pytest.mark.parametrize(
    ("kind", "argument"),
    [
        ("classic", {"x-quorum-initial-group-size": 1}),
        ("classic", {"x-max-age": "1D"}),
        ("classic", {"x-stream-max-segment-size-bytes": 1000}),
        ("quorum", {"x-max-priority": 3}),
        ("quorum", {"x-queue-mode": "lazy"}),
    ],
)
def test_an_argument_of_another_type_is_406(
    client: RawClient, fresh_name: FreshName, kind: str, argument: dict[str, Any]
) -> None:
    (key,) = argument
    reason = f"invalid arg '{key}' for {{}} of queue type rabbit_{kind}_queue"
    arguments = {"x-queue-type": kind, **argument}
    expect_refused(client, fresh_name(), arguments, reason, durable=True)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("x-queue-type", 5, "{unacceptable_type,byte}"),
        ("x-queue-mode", "eager", "\"unsupported queue mode 'eager'\""),
        ("x-queue-version", 3, "\"unsupported queue version '3'\""),
        ("x-single-active-consumer", 1, "{unacceptable_type,byte}"),
        ("x-expires", "1", '"expected integer, got longstr"'),
        ("x-max-length", "1", '"expected integer, got longstr"'),
        ("x-max-length-bytes", -1, "{value_negative,-1}"),
        ("x-message-ttl", 315_360_000_001, "{value_too_large,315360000001}"),
        ("x-message-ttl", 1.5, '"expected integer, got float"'),
    ],
)
def test_a_value_that_makes_no_sense_is_406(
    client: RawClient, fresh_name: FreshName, key: str, value: object, told: str
) -> None:
    name = fresh_name()
    client.send_method(1, Queue.Declare(0, name, arguments={key: value}))  # type: ignore[dict-item]
    text = f"PRECONDITION_FAILED - invalid arg '{key}' for queue '{name}' in vhost '/'"
    client.expect_refusal(channel_closed(406, f"{text}: {told}", *DECLARE))


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-queue-type": "classic"},
        {"x-queue-mode": "lazy"},
        {"x-queue-mode": "default"},
        {"x-queue-version": 1},
        {"x-queue-version": 2},
        {"x-queue-master-locator": "min-masters"},
        {"x-queue-leader-locator": "client-local"},
        {"x-something-of-ours": "a"},
    ],
    ids=lambda arguments: "{}={}".format(*next(iter(arguments.items()))),
)
def test_an_argument_without_effect_is_tolerated(
    client: RawClient, fresh_name: FreshName, arguments: dict[str, Any]
) -> None:
    name = fresh_name()
    for _ in range(2):
        declare(client, name, arguments)
    client.publish_to_queue(name, b"x")
    message = client.get(name)
    assert message is not None
    assert message.body == b"x"


COMPARED: Final[dict[str, tuple[object, str, str]]] = {
    "x-expires": (600_000, "600000", "signedint"),
    "x-message-ttl": (600_000, "600000", "signedint"),
    "x-dead-letter-exchange": ("dlx", "dlx", "longstr"),
    "x-max-length": (600_000, "600000", "signedint"),
    "x-max-length-bytes": (600_000, "600000", "signedint"),
    "x-max-priority": (9, "9", "byte"),
    "x-overflow": ("reject-publish", "reject-publish", "longstr"),
    "x-queue-mode": ("lazy", "lazy", "longstr"),
    "x-single-active-consumer": (True, "true", "bool"),
}


@pytest.mark.parametrize("key", COMPARED)
def test_an_argument_that_the_type_knows_is_compared(
    client: RawClient, fresh_name: FreshName, key: str
) -> None:
    value, shown, kind = COMPARED[key]
    name = fresh_name()
    declare(client, name, {key: value})
    declare(client, name, {key: value})
    reason = (
        f"inequivalent arg '{key}' for {{}}: received none "
        f"but current is the value '{shown}' of type '{kind}'"
    )
    expect_refused(client, name, {}, reason)


def test_a_quorum_queue_is_no_classic_queue(
    client: RawClient, fresh_name: FreshName
) -> None:
    name = fresh_name()
    declare(client, name, QUORUM, durable=True)
    reason = (
        "inequivalent arg 'x-queue-type' for {}: received none "
        "but current is the value 'quorum' of type 'longstr'"
    )
    expect_refused(client, name, {}, reason, durable=True)


def test_a_stream_is_406(
    client: RawClient, fresh_name: FreshName, expectations: Expectations
) -> None:
    arguments = {"x-queue-type": "stream", "x-max-age": "1D"}
    if expectations.differ("streams"):
        declare(client, fresh_name(), arguments, durable=True)
        return
    reason = (
        "invalid arg 'x-queue-type' for {}: "
        "\"unsupported queue type 'stream', declare 'classic' or 'quorum'\""
    )
    expect_refused(client, fresh_name(), arguments, reason, durable=True)


def test_a_global_prefetch_holds_for_quorum_queues_too(
    client: RawClient, fresh_name: FreshName, expectations: Expectations
) -> None:
    name = fresh_name()
    declare(client, name, QUORUM, durable=True)
    client.call(1, Basic.Qos(0, 1, True), Basic.QosOk)
    client.send_method(1, Basic.Consume(0, name))
    if expectations.differ("global-prefetch-of-quorum-queues"):
        text = f"queue '{name}' in vhost '/' does not support global qos"
        refusal = connection_closed(540, f"NOT_IMPLEMENTED - {text}", 60, 20)
        client.expect_refusal(refusal)
        return
    client.expect_method(1, Basic.ConsumeOk)
    for body in (b"1", b"2"):
        client.publish_to_queue(name, body)
    first = client.expect_message(1, Basic.Deliver)
    counts = client.call(1, Queue.Declare(0, name, passive=True), Queue.DeclareOk)
    assert (first.body, counts.message_count) == (b"1", 1)


def test_without_a_delivery_limit_a_message_comes_back_for_ever(
    client: RawClient, fresh_name: FreshName
) -> None:
    name = fresh_name()
    declare(client, name, QUORUM, durable=True)
    client.publish_to_queue(name, b"x")
    client.call(1, Basic.Consume(0, name, "t"), Basic.ConsumeOk)
    # More than 20, at which RabbitMQ 4 gives up unless it is told otherwise.
    for count in range(30):
        message = client.expect_message(1, Basic.Deliver)
        assert isinstance(message.method, Basic.Deliver)
        assert message.method.redelivered == (count > 0)
        tag = message.method.delivery_tag or 0
        client.send_method(1, Basic.Reject(tag, requeue=True))
