"""Topic permissions: which routing keys the user `limited` may use.

On the exchange `cwr-topics` it may publish what begins with its own name and bind what
begins with that of the virtual host (definitions.json).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from pamqp import base
from pamqp.commands import Basic, Exchange, Queue

from tests.support.content import string_array, with_headers
from tests.support.differences import Expectations
from tests.support.raw_client import Endpoint, RawClient, channel_closed

EXCHANGE = "cwr-topics"
QUEUE = "cwr-topics-queue"


@pytest.fixture
def limited(broker: Endpoint, client: RawClient) -> Iterator[RawClient]:
    """A connection of the limited user; the exchange and a queue are there."""
    client.call(1, Exchange.Declare(0, EXCHANGE, "topic"), Exchange.DeclareOk)
    client.call(1, Queue.Declare(0, QUEUE), Queue.DeclareOk)
    client.call(1, Queue.Bind(0, QUEUE, EXCHANGE, "#"), Queue.BindOk)
    endpoint = dataclasses.replace(broker, user="limited", password="limited")
    with RawClient(endpoint) as limited:
        yield limited.open().open_channel()
    client.call(1, Queue.Delete(0, QUEUE), Queue.DeleteOk)
    client.call(1, Exchange.Delete(0, EXCHANGE), Exchange.DeleteOk)


def expect_refused(
    client: RawClient,
    expectations: Expectations,
    right: str,
    key: str,
    ids: tuple[int, int],
) -> None:
    text = (
        f"ACCESS_REFUSED - {right} access to topic '{key}' in exchange '{EXCHANGE}' "
        "in vhost '/' refused for user 'limited'"
    )
    expected = expectations.of(
        "topic-permission-kind-in-text",
        channel_closed(403, text, *ids),
        key=key,
        exchange=EXCHANGE,
    )
    client.expect_refusal(expected)


def test_keys_that_may_be_used_are_used(limited: RawClient, client: RawClient) -> None:
    limited.publish(1, Basic.Publish(0, EXCHANGE, "limited.a"), b"x")
    bind = Queue.Bind(0, QUEUE, EXCHANGE, "/.a")
    limited.call(1, bind, Queue.BindOk)
    limited.call(1, Queue.Unbind(0, QUEUE, EXCHANGE, "/.a"), Queue.UnbindOk)
    message = client.get(QUEUE)
    assert message is not None


def test_publishing_with_another_key_is_403(
    limited: RawClient, expectations: Expectations
) -> None:
    for _ in range(2):
        limited.publish(1, Basic.Publish(0, EXCHANGE, "other.a"), b"x")
        expect_refused(limited, expectations, "write", "other.a", (60, 40))


@pytest.mark.parametrize("queue", [QUEUE, "cwr-missing"])
def test_binding_with_another_key_is_403(
    limited: RawClient, expectations: Expectations, queue: str
) -> None:
    changes: list[tuple[base.Frame, int]] = [
        (Queue.Bind(0, queue, EXCHANGE, "a"), 20),
        (Queue.Unbind(0, queue, EXCHANGE, "a"), 50),
    ]
    for change, method_id in changes:
        limited.send_method(1, change)
        expect_refused(limited, expectations, "read", "a", (50, method_id))


def test_binding_an_exchange_with_another_key_is_403(
    limited: RawClient, expectations: Expectations
) -> None:
    limited.send_method(1, Exchange.Bind(0, "cwr-missing", EXCHANGE, "a"))
    expect_refused(limited, expectations, "read", "a", (40, 30))


def test_other_exchanges_and_users_are_free(
    limited: RawClient, client: RawClient
) -> None:
    limited.publish(1, Basic.Publish(0, "cwr-other", "anything"), b"x")
    text = "NOT_FOUND - no exchange 'cwr-other' in vhost '/'"
    limited.expect_refusal(channel_closed(404, text, 60, 40))
    client.publish(1, Basic.Publish(0, EXCHANGE, "anything"), b"x")
    assert client.get(QUEUE) is not None


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_keys_of_copies_are_checked_too(
    limited: RawClient, client: RawClient, expectations: Expectations, header: str
) -> None:
    properties = with_headers(string_array(header, "limited.b", "other.a"))
    limited.publish(1, Basic.Publish(0, EXCHANGE, "limited.a"), b"x", properties)
    if expectations.differ("topic-permission-of-copies"):
        limited.call(1, Basic.Qos(), Basic.QosOk)
        assert client.get(QUEUE) is not None
    else:
        expect_refused(limited, expectations, "write", "other.a", (60, 40))
        assert client.get(QUEUE) is None
