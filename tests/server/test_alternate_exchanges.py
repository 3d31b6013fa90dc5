"""Alternate exchanges: when they are used, and that rings of them end."""

from __future__ import annotations

import pytest
from pamqp.commands import Exchange

from tests.support.differences import Expectations
from tests.support.wiring import Wiring


def with_alternate(name: str) -> dict[str, object]:
    return {"alternate-exchange": name}


def test_it_gets_what_the_exchange_has_no_binding_for(wiring: Wiring) -> None:
    alternate = wiring.exchange("fanout")
    exchange = wiring.exchange("direct", with_alternate(alternate))
    found, lost = wiring.queue(exchange), wiring.queue(alternate)
    assert wiring.send(exchange, "k", b"1", mandatory=True) is None
    assert wiring.send(exchange, "other", b"2", mandatory=True) is None
    assert (wiring.bodies(found), wiring.bodies(lost)) == ([b"1"], [b"2"])


@pytest.mark.parametrize(
    ("kind", "key", "arguments"),
    [
        ("topic", "a.*", {}),
        ("headers", "", {"h": 1}),
        ("x-consistent-hash", "1", {}),
        ("x-modulus-hash", "", {}),
        ("x-random", "", {}),
    ],
)
def test_every_type_has_one(
    wiring: Wiring, kind: str, key: str, arguments: dict[str, object]
) -> None:
    alternate = wiring.exchange("fanout")
    exchange = wiring.exchange(kind, with_alternate(alternate))
    lost = wiring.queue(alternate)
    assert wiring.is_routed(exchange, "x.y")
    assert wiring.bodies(lost) == [b"x"]
    queue = wiring.queue()
    wiring.bind(queue, exchange, key, arguments)
    table = b"\x20\x00\x00\x00\x00\x07\x01hI\x00\x00\x00\x01"
    assert wiring.send(exchange, "a.b", b"y", table, mandatory=True) is None
    assert (wiring.bodies(queue), wiring.bodies(lost)) == ([b"y"], [])


def test_what_went_there_is_history_all_the_same(wiring: Wiring) -> None:
    alternate = wiring.exchange("fanout")
    exchange = wiring.exchange("x-recent-history", with_alternate(alternate))
    lost = wiring.queue(alternate)
    assert wiring.is_routed(exchange)
    assert wiring.bodies(lost) == [b"x"]
    assert wiring.bodies(wiring.queue(exchange)) == [b"x"]


def test_a_message_keeps_the_name_of_the_first_exchange(wiring: Wiring) -> None:
    alternate = wiring.exchange("fanout")
    exchange = wiring.exchange("direct", with_alternate(alternate))
    queue = wiring.queue(alternate)
    wiring.send(exchange, "key")
    (message,) = wiring.messages(queue)
    method = dict(message.method)
    assert (method["exchange"], method["routing_key"]) == (exchange, "key")


def test_a_binding_to_an_exchange_that_leads_nowhere_is_a_way(wiring: Wiring) -> None:
    alternate, dead_end = wiring.exchange("fanout"), wiring.exchange("fanout")
    exchange = wiring.exchange("direct", with_alternate(alternate))
    wiring.bind_exchange(dead_end, exchange)
    lost = wiring.queue(alternate)
    assert not wiring.is_routed(exchange)
    assert wiring.bodies(lost) == []


def test_an_exchange_on_the_way_uses_its_own(wiring: Wiring) -> None:
    alternate = wiring.exchange("fanout")
    inner = wiring.exchange("direct", with_alternate(alternate))
    outer = wiring.exchange("fanout")
    wiring.bind_exchange(inner, outer)
    lost = wiring.queue(alternate)
    assert wiring.is_routed(outer, "nothing")
    assert wiring.bodies(lost) == [b"x"]


def test_one_leads_to_the_next(wiring: Wiring) -> None:
    third = wiring.exchange("fanout")
    second = wiring.exchange("direct", with_alternate(third))
    first = wiring.exchange("direct", with_alternate(second))
    last = wiring.queue(third)
    assert wiring.is_routed(first)
    assert wiring.bodies(last) == [b"x"]


def test_a_ring_of_them_leads_nowhere(wiring: Wiring) -> None:
    first, second = wiring.fresh_name(), wiring.fresh_name()
    wiring.declare(first, "direct", with_alternate(second))
    wiring.declare(second, "direct", with_alternate(first))
    assert not wiring.is_routed(first)
    assert not wiring.is_routed(second)
    itself = wiring.fresh_name()
    wiring.declare(itself, "direct", with_alternate(itself))
    assert not wiring.is_routed(itself)


def test_a_ring_with_a_way_out_delivers_once(wiring: Wiring) -> None:
    first, second = wiring.fresh_name(), wiring.fresh_name()
    wiring.declare(first, "direct", with_alternate(second))
    wiring.declare(second, "fanout", with_alternate(first))
    wiring.bind_exchange(first, second)
    queue = wiring.queue(second)
    assert wiring.is_routed(first)
    assert wiring.bodies(queue) == [b"x"]


def test_one_that_is_missing_is_as_if_there_were_none(wiring: Wiring) -> None:
    name = wiring.fresh_name()
    exchange = wiring.exchange("direct", with_alternate(name))
    assert not wiring.is_routed(exchange)
    wiring.declare(name, "fanout")
    queue = wiring.queue(name)
    assert wiring.is_routed(exchange)
    wiring.client.call(1, Exchange.Delete(0, name), Exchange.DeleteOk)
    assert not wiring.is_routed(exchange)
    assert wiring.bodies(queue) == [b"x"]


def test_an_internal_exchange_may_be_one(wiring: Wiring) -> None:
    alternate = wiring.exchange("fanout", internal=True)
    exchange = wiring.exchange("direct", with_alternate(alternate))
    queue = wiring.queue(alternate)
    assert wiring.is_routed(exchange)
    assert wiring.bodies(queue) == [b"x"]


def test_the_default_exchange_may_be_one(
    wiring: Wiring, expectations: Expectations
) -> None:
    exchange = wiring.exchange("direct", with_alternate(""))
    queue = wiring.queue()
    is_routed = not expectations.differ("default-exchange-as-alternate")
    assert wiring.is_routed(exchange, queue) is is_routed
    assert wiring.bodies(queue) == ([b"x"] if is_routed else [])


def test_all_keys_of_a_message_count_there_too(wiring: Wiring) -> None:
    alternate = wiring.exchange("direct")
    exchange = wiring.exchange("direct", with_alternate(alternate))
    queue = wiring.queue(alternate, key="copy")
    cc = b"\x20\x00\x00\x00\x00\x11\x02CCA\x00\x00\x00\x09S\x00\x00\x00\x04copy"
    assert wiring.send(exchange, "k", b"x", cc, mandatory=True) is None
    assert wiring.bodies(queue) == [b"x"]
