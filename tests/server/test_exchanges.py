"""Exchanges: what may be declared and deleted, and what an existing one must equal."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from pamqp import base, commands
from pamqp.commands import Exchange
from pamqp.common import FieldTable

from tests.support.differences import Expectations
from tests.support.raw_client import (
    METHOD,
    Closed,
    RawClient,
    channel_closed,
    longstr,
    shortstr,
)

DEFAULT_EXCHANGE = "ACCESS_REFUSED - operation not permitted on the default exchange"
ALTERNATE = {"alternate-exchange": "amq.fanout"}


def refused(code: int, text: str, method_id: int = 10) -> Closed:
    return channel_closed(code, text, 40, method_id)


def declare(client: RawClient, name: str, **fields: object) -> None:
    method = Exchange.Declare(0, name, **fields)  # type: ignore[arg-type]
    client.call(1, method, Exchange.DeclareOk)


@pytest.mark.parametrize(
    "name",
    ["amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match"],
)
def test_the_predeclared_exchanges_are_there(client: RawClient, name: str) -> None:
    kind = "headers" if name == "amq.match" else name.removeprefix("amq.")
    declare(client, name, exchange_type=kind, durable=True)


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_declaring_the_same_again_is_fine(
    client: RawClient, fresh_name: Callable[[], str], kind: str
) -> None:
    name = fresh_name()
    for _ in range(2):
        declare(client, name, exchange_type=kind, auto_delete=True, internal=True)
    client.call(1, Exchange.Declare(0, name, passive=True), Exchange.DeclareOk)


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (
            {},
            {"exchange_type": "fanout"},
            "'type' {}: received 'fanout' but current is 'direct'",
        ),
        ({}, {"durable": True}, "'durable' {}: received 'true' but current is 'false'"),
        ({"durable": True}, {}, "'durable' {}: received 'false' but current is 'true'"),
        (
            {},
            {"auto_delete": True},
            "'auto_delete' {}: received 'true' but current is 'false'",
        ),
        (
            {},
            {"internal": True},
            "'internal' {}: received 'true' but current is 'false'",
        ),
        (
            {},
            {"arguments": ALTERNATE},
            (
                "'alternate-exchange' {}: received the value 'amq.fanout' "
                "of type 'longstr' but current is none"
            ),
        ),
        (
            {"arguments": ALTERNATE},
            {},
            (
                "'alternate-exchange' {}: received none "
                "but current is the value 'amq.fanout' of type 'longstr'"
            ),
        ),
        (
            {"arguments": ALTERNATE},
            {"arguments": {"alternate-exchange": "other"}},
            "'alternate-exchange' {}: received 'other' but current is 'amq.fanout'",
        ),
        (
            {},
            {"durable": True, "exchange_type": "topic"},
            "'type' {}: received 'topic' but current is 'direct'",
        ),
    ],
)
def test_declaring_it_otherwise_is_406(
    client: RawClient,
    fresh_name: Callable[[], str],
    first: dict[str, object],
    second: dict[str, object],
    text: str,
) -> None:
    name = fresh_name()
    declare(client, name, **first)
    client.send_method(1, Exchange.Declare(0, name, **second))  # type: ignore[arg-type]
    difference = text.format(f"for exchange '{name}' in vhost '/'")
    client.expect_refusal(
        refused(406, f"PRECONDITION_FAILED - inequivalent arg {difference}")
    )


def test_arguments_that_mean_nothing_are_not_compared(
    client: RawClient, fresh_name: Callable[[], str]
) -> None:
    name = fresh_name()
    declare(client, name, arguments={"x-anything": 1})
    declare(client, name, arguments={"x-anything": 2})


def test_an_alternate_exchange_that_is_no_string_is_406(
    client: RawClient, fresh_name: Callable[[], str]
) -> None:
    name = fresh_name()
    arguments: FieldTable = {"alternate-exchange": 5}
    client.send_method(1, Exchange.Declare(0, name, arguments=arguments))
    text = (
        "PRECONDITION_FAILED - invalid type 'byte' for arg 'alternate-exchange' "
        f"in exchange '{name}' in vhost '/'"
    )
    client.expect_refusal(refused(406, text))


@pytest.mark.parametrize("kind", ["x-nope", "x-jms-topic", "x-federation-upstream"])
def test_an_unknown_type_is_406(
    client: RawClient,
    expectations: Expectations,
    fresh_name: Callable[[], str],
    kind: str,
) -> None:
    client.send_method(1, Exchange.Declare(0, fresh_name(), kind))
    ours = refused(406, f"PRECONDITION_FAILED - unknown exchange type '{kind}'")
    client.expect_refusal(expectations.of("unknown-exchange-type", ours, type=kind))


def test_passive_declare_looks_at_the_name_only(client: RawClient) -> None:
    passive = Exchange.Declare(0, "amq.direct", "x-nope", passive=True)
    client.call(1, passive, Exchange.DeclareOk)


def test_passive_declare_of_a_missing_exchange_is_404(client: RawClient) -> None:
    client.send_method(1, Exchange.Declare(0, "nowhere", passive=True))
    text = "NOT_FOUND - no exchange 'nowhere' in vhost '/'"
    client.expect_refusal(refused(404, text))


def test_a_new_name_with_the_reserved_prefix_is_403(client: RawClient) -> None:
    client.send_method(1, Exchange.Declare(0, "amq.new"))
    text = "ACCESS_REFUSED - exchange name 'amq.new' contains reserved prefix 'amq.*'"
    client.expect_refusal(refused(403, text))


@pytest.mark.parametrize("flags", [b"\x00", b"\x01", b"\x02"])
def test_declaring_the_default_exchange_is_403(client: RawClient, flags: bytes) -> None:
    arguments = b"\x00\x00" + shortstr(b"") + shortstr(b"direct") + flags
    client.send_frame(METHOD, 1, struct.pack(">HH", 40, 10) + arguments + longstr(b""))
    client.expect_refusal(refused(403, DEFAULT_EXCHANGE))


@pytest.mark.parametrize(
    ("method", "class_id", "method_id"),
    [
        (Exchange.Delete(0, ""), 40, 20),
        (Exchange.Bind(0, "amq.direct", "", "k"), 40, 30),
        (Exchange.Bind(0, "", "amq.direct", "k"), 40, 30),
        (Exchange.Unbind(0, "amq.direct", "", "k"), 40, 40),
        (commands.Queue.Bind(0, "", "", "k"), 50, 20),
        (commands.Queue.Unbind(0, "", "", "k"), 50, 50),
    ],
    ids=[
        "delete",
        "exchange.bind as source",
        "exchange.bind as destination",
        "exchange.unbind",
        "queue.bind",
        "queue.unbind",
    ],
)
def test_any_operation_on_the_default_exchange_is_403(
    client: RawClient, method: base.Frame, class_id: int, method_id: int
) -> None:
    client.temporary_queue()
    client.send_method(1, method)
    expected = channel_closed(403, DEFAULT_EXCHANGE, class_id, method_id)
    client.expect_refusal(expected)


@pytest.mark.parametrize("name", ["amq.direct", "amq.fanout", "amq.nowhere"])
def test_deleting_a_system_exchange_is_403(client: RawClient, name: str) -> None:
    client.send_method(1, Exchange.Delete(0, name))
    text = (
        f"ACCESS_REFUSED - deletion of system exchange '{name}' "
        "in vhost '/' not allowed"
    )
    client.expect_refusal(refused(403, text, 20))


@pytest.mark.parametrize("if_unused", [False, True])
def test_deleting_a_missing_exchange_is_answered(
    client: RawClient, if_unused: bool
) -> None:
    client.call(1, Exchange.Delete(0, "nowhere", if_unused), Exchange.DeleteOk)


def test_deleting_an_exchange_in_use_is_406_if_unused(
    client: RawClient, fresh_name: Callable[[], str]
) -> None:
    name = fresh_name()
    declare(client, name)
    bind = commands.Queue.Bind(0, client.temporary_queue(), name, "k")
    client.call(1, bind, commands.Queue.BindOk)
    client.send_method(1, Exchange.Delete(0, name, if_unused=True))
    text = f"PRECONDITION_FAILED - exchange '{name}' in vhost '/' in use"
    client.expect_refusal(refused(406, text, 20))
    client.call(1, Exchange.Delete(0, name), Exchange.DeleteOk)


def test_an_exchange_that_is_only_a_destination_is_unused(
    client: RawClient, fresh_name: Callable[[], str]
) -> None:
    source, destination = fresh_name(), fresh_name()
    declare(client, source)
    declare(client, destination)
    bind = Exchange.Bind(0, destination, source, "k")
    client.call(1, bind, Exchange.BindOk)
    client.call(1, Exchange.Delete(0, destination, if_unused=True), Exchange.DeleteOk)
    # The binding went with it, so the source is unused too.
    client.call(1, Exchange.Delete(0, source, if_unused=True), Exchange.DeleteOk)


@pytest.mark.parametrize("by", ["unbind", "queue.delete", "exchange.unbind"])
def test_an_auto_delete_exchange_goes_with_its_last_binding(
    client: RawClient, fresh_name: Callable[[], str], by: str
) -> None:
    name = fresh_name()
    declare(client, name, auto_delete=True)
    queue = client.temporary_queue()
    if by == "exchange.unbind":
        bound = Exchange.Bind(0, "amq.fanout", name, "k")
        client.call(1, bound, Exchange.BindOk)
        unbind = Exchange.Unbind(0, "amq.fanout", name, "k")
        client.call(1, unbind, Exchange.UnbindOk)
    else:
        bind = commands.Queue.Bind(0, queue, name, "k")
        client.call(1, bind, commands.Queue.BindOk)
        if by == "unbind":
            unbound = commands.Queue.Unbind(0, queue, name, "k")
            client.call(1, unbound, commands.Queue.UnbindOk)
        else:
            delete = commands.Queue.Delete(0, queue)
            client.call(1, delete, commands.Queue.DeleteOk)
    client.send_method(1, Exchange.Declare(0, name, passive=True))
    text = f"NOT_FOUND - no exchange '{name}' in vhost '/'"
    client.expect_refusal(refused(404, text))


def test_an_auto_delete_exchange_that_was_never_bound_stays(
    client: RawClient, fresh_name: Callable[[], str]
) -> None:
    name = fresh_name()
    declare(client, name, auto_delete=True)
    queue = client.temporary_queue()
    # Unbinding what is not bound is no reason to go either.
    unbind = commands.Queue.Unbind(0, queue, name, "k")
    client.call(1, unbind, commands.Queue.UnbindOk)
    client.call(1, Exchange.Declare(0, name, passive=True), Exchange.DeclareOk)
