"""Remembered routes: current as long as nothing they were made from has changed."""

import pytest
from pamqp import commands

from amqpd.broker.queues.queue import Queue
from amqpd.broker.vhosts.routes import (
    ENTRIES_MAX,
    WAY_COST,
    WAY_KEY_SIZE_MAX,
    WAYS_SIZE_MAX,
    Route,
    RouteCache,
)
from routing.binding import Binding
from routing.routable import Routable
from routing.router import Router
from tests.support.connection_pair import Bench, ConnectionPair, method
from tests.support.content import publish

TO_QUEUE = b"\x00\x01q"
TO_EXCHANGE = b"\x01x\x01k"


@pytest.fixture
def queue(bench: Bench) -> Queue:
    dispatch, pager = bench.broker.dispatch, bench.broker.pager
    return Queue(1, "q", "/", False, False, None, {}, b"", dispatch, pager)


def route(queue: Queue | None = None) -> Route:
    queues = [] if queue is None else [queue]
    return Route(TO_QUEUE + b"\xce", "", queues, None)


def test_a_route_by_default_is_current_while_its_queue_is_there(queue: Queue) -> None:
    found = route(queue)
    assert found.is_current()
    assert not found.asks_message
    queue.delete()
    assert not found.is_current()


def test_a_route_that_leads_nowhere_by_default_is_never_current() -> None:
    assert not route().is_current()


@pytest.mark.parametrize("kind", ["direct", "headers"])
def test_a_route_by_an_exchange_is_current_until_its_bindings_change(
    queue: Queue, kind: str
) -> None:
    router: Router[Queue] = Router()
    router.add_exchange("x", kind, None, {})
    router.add_destination("q", queue)
    resolution = router.resolve("x", Routable([b"k"]))
    found = Route(TO_EXCHANGE + b"\xce", "x", resolution.destinations, resolution)
    assert found.asks_message is (kind == "headers")
    assert found.asks_headers is (kind == "headers")
    assert found.is_current()
    router.bind(Binding("x", "q", False, b"k", {}, b""))
    assert not found.is_current()


def by_headers(queue: Queue, then: str = "fanout") -> Route:
    """A route by a headers exchange, and another one behind it."""
    router: Router[Queue] = Router()
    router.add_exchange("x", "headers", None, {})
    router.add_exchange("y", then, None, {})
    router.add_destination("q", queue)
    router.bind(Binding("x", "y", True, b"", {}, b""))
    resolution = router.resolve("x", Routable([b"k"]))
    return Route(TO_EXCHANGE + b"\xce", "x", resolution.destinations, resolution)


def test_headers_are_all_that_some_routes_ask_for(queue: Queue) -> None:
    found = by_headers(queue)
    found.note_headers_asked()
    assert not found.asks_message
    assert not found.asks_headers


def test_the_headers_are_not_enough_for_what_asks_more(queue: Queue) -> None:
    found = by_headers(queue, "x-random")
    assert not found.asks_headers
    found.note_headers_asked()
    assert found.asks_message


def test_a_route_that_is_to_ask_each_message_does_not_stop_at_headers(
    queue: Queue,
) -> None:
    for found in (by_headers(queue), route(queue)):
        found.ask_each_message()
        assert found.asks_message
        assert not found.asks_headers


def test_ways_are_kept_until_they_take_too_much_memory(queue: Queue) -> None:
    cache = RouteCache()
    way = route(queue)
    size = int(4 + WAY_COST + 8)
    for at in range(int(WAYS_SIZE_MAX) // size):
        cache.remember_way(at.to_bytes(4, "big"), way)
    assert len(cache.ways) == WAYS_SIZE_MAX // size
    cache.remember_way(b"last", way)
    assert cache.ways == {b"last": way}
    cache.remember_way(b"next", way)
    assert cache.ways == {b"last": way, b"next": way}


def test_ways_that_lead_to_many_queues_weigh_more(queue: Queue) -> None:
    cache = RouteCache()
    wide = Route(TO_QUEUE + b"\xce", "", [queue] * 1000, None)
    for at in range(200):
        cache.remember_way(at.to_bytes(4, "big"), wide)
    assert len(cache.ways) < WAYS_SIZE_MAX // 8000


def test_a_large_table_drives_nothing_out(queue: Queue) -> None:
    cache = RouteCache()
    cache.remember_way(bytes(WAY_KEY_SIZE_MAX + 1), route(queue))
    assert cache.ways == {}
    cache.remember_way(bytes(WAY_KEY_SIZE_MAX), route(queue))
    assert len(cache.ways) == 1


def test_clearing_forgets_ways_and_what_they_weigh(queue: Queue) -> None:
    cache = RouteCache()
    way = route(queue)
    count = int(WAYS_SIZE_MAX) // int(4 + WAY_COST + 8)
    for _ in range(2):
        for at in range(count):
            cache.remember_way(at.to_bytes(4, "big"), way)
        assert len(cache.ways) == count
        cache.clear()
        assert cache.ways == {}


def test_routes_by_default_and_by_name_are_kept_apart(queue: Queue) -> None:
    cache = RouteCache()
    by_default, by_name = route(queue), route(queue)
    cache.remember(TO_QUEUE, by_default)
    cache.remember(TO_EXCHANGE, by_name)
    assert cache.by_default == {TO_QUEUE: by_default}
    assert cache.by_name == {TO_EXCHANGE: by_name}
    cache.clear()
    assert (cache.by_default, cache.by_name) == ({}, {})


def test_a_full_table_begins_anew_and_leaves_the_other_alone(queue: Queue) -> None:
    cache = RouteCache()
    kept = route(queue)
    cache.remember(TO_QUEUE, kept)
    for at in range(ENTRIES_MAX):
        cache.remember(b"\x01x\x02" + at.to_bytes(2, "big"), kept)
    assert len(cache.by_name) == ENTRIES_MAX
    cache.remember(TO_EXCHANGE, kept)
    assert cache.by_name == {TO_EXCHANGE: kept}
    assert cache.by_default == {TO_QUEUE: kept}


def test_a_message_for_a_queue_that_comes_later_is_not_sent_nowhere_again(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.send(publish("q", b"before"))
    pair.declare("q")
    pair.send(publish("q", b"after"))
    pair.consume("q")
    bench.turn()
    assert pair.deliveries() == [b"after"]


def test_bindings_that_come_and_go_hold_at_once(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.declare("q")
    pair.consume("q")
    message = publish("k", b"x", exchange="amq.direct")
    binding = commands.Queue.Bind(queue="q", exchange="amq.direct", routing_key="k")
    unbinding = commands.Queue.Unbind(queue="q", exchange="amq.direct", routing_key="k")
    pair.send(message, method(1, binding), message, message)
    pair.expect(1, commands.Queue.BindOk)
    bench.turn()
    assert pair.deliveries() == [b"x", b"x"]
    pair.send(method(1, unbinding), message)
    pair.expect(1, commands.Queue.UnbindOk)
    bench.turn()
    assert pair.deliveries() == []


def test_a_right_that_is_taken_away_holds_for_remembered_routes(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.declare("q")
    pair.send(publish("q", b"x"))
    assert pair.take() == []
    bench.broker.permissions.remove("guest", "/")
    pair.send(publish("q", b"x"))
    assert pair.expect_close(1).code == 403
