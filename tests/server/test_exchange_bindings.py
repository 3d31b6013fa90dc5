"""Exchanges bound to exchanges: rings, several ways to one queue, internal ones."""

from __future__ import annotations

from pamqp.commands import Exchange

from tests.support.wiring import Wiring


def test_a_message_follows_bindings_from_exchange_to_exchange(wiring: Wiring) -> None:
    first, second, third = (wiring.exchange("topic") for _ in range(3))
    wiring.bind_exchange(second, first, "a.#")
    wiring.bind_exchange(third, second, "#.c")
    queue = wiring.queue(third, key="*.b.*")
    for key in ("a.b.c", "a.b.d", "x.b.c", "a.c"):
        wiring.send(first, key, key.encode())
    (message,) = wiring.messages(queue)
    method = dict(message.method)
    assert (method["exchange"], method["routing_key"]) == (first, "a.b.c")


def test_several_ways_to_a_queue_deliver_once(wiring: Wiring) -> None:
    start, left, right = (wiring.exchange("fanout") for _ in range(3))
    wiring.bind_exchange(left, start)
    wiring.bind_exchange(right, start)
    queue = wiring.queue(start, left, right)
    wiring.bind(queue, start, "another key")
    wiring.send(start)
    assert wiring.bodies(queue) == [b"x"]


def test_rings_end(wiring: Wiring) -> None:
    first, second, third = (wiring.exchange("fanout") for _ in range(3))
    for destination, source in ((second, first), (third, second), (first, third)):
        wiring.bind_exchange(destination, source)
    wiring.bind_exchange(second, second)
    assert not wiring.is_routed(first)
    queues = [wiring.queue(name) for name in (first, second, third)]
    for start in (first, second, third):
        assert wiring.is_routed(start)
    assert [wiring.bodies(queue) for queue in queues] == [[b"x"] * 3] * 3


def test_an_internal_exchange_gets_messages_from_others(wiring: Wiring) -> None:
    inner = wiring.exchange("fanout", internal=True)
    outer = wiring.exchange("fanout")
    wiring.bind_exchange(inner, outer)
    queue = wiring.queue(inner)
    wiring.send(outer)
    assert wiring.bodies(queue) == [b"x"]


def test_a_way_that_is_undone_is_not_taken(wiring: Wiring) -> None:
    first, second = wiring.exchange("fanout"), wiring.exchange("fanout")
    wiring.bind_exchange(second, first, "1")
    wiring.bind_exchange(second, first, "2")
    queue = wiring.queue(second)
    for key, routed in (("1", True), ("2", False)):
        unbind = Exchange.Unbind(0, second, first, key)
        wiring.client.call(1, unbind, Exchange.UnbindOk)
        assert wiring.is_routed(first) is routed
    assert wiring.bodies(queue) == [b"x"]
