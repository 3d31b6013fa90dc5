"""Lists in process: ordered, and short for the loop however long they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from amqpd.http.api.queues import list_queues
from amqpd.http.call import Call
from amqpd.http.listing import Listing
from amqpd.http.room import Room
from tests.support.connection_pair import Bench
from tests.support.control_plane import arguments
from tests.support.http_room import room_of

COUNT = 300


def call(room: Room, **query: str) -> Call:
    user = room.broker.users.get("guest")
    assert user is not None

    async def no_body() -> bytes:
        return b""

    return Call(room, user, {}, query, {}, no_body)


async def found(room: Room, **query: str) -> Any:
    answer = await list_queues(call(room, **query))
    return json.loads(b"".join(answer.pieces(1000)))


@pytest.fixture
def room(bench: Bench) -> Room:
    topology = bench.broker.vhosts["/"].topology
    for number in reversed(range(COUNT)):
        queue_id = topology.surroundings.take_transient_id()
        topology.make_queue(
            queue_id, f"q{number:03}", False, False, None, arguments({})
        )
    return room_of(bench)


async def test_a_list_is_what_its_objects_are_now(room: Room, bench: Bench) -> None:
    pair = bench.connect()
    first = await found(room)
    pair.consume("q007")
    bench.turn()
    second = await found(room)
    assert [one["name"] for one in first] == [f"q{n:03}" for n in range(COUNT)]
    assert [one["consumers"] for one in first] == [0] * COUNT
    assert [one["name"] for one in second if one["consumers"]] == ["q007"]


async def test_a_deleted_queue_is_not_listed_any_more(room: Room) -> None:
    vhost = room.broker.vhosts["/"]
    await found(room)
    vhost.delete_queue_now(vhost.queues["q001"])
    assert "q001" not in [one["name"] for one in await found(room)]


async def test_pages_with_kept_texts_are_those_without(room: Room) -> None:
    plain = await found(room)
    page = await found(room, page="2", page_size="100")
    columns = await found(room, page="2", page_size="100", columns="name,messages")
    assert page["items"] == plain[100:200]
    assert columns["items"] == [
        {"name": one["name"], "messages": 0} for one in plain[100:200]
    ]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3, 1, 2], [1, 2, 3]),
        (["b", 1, "a", None, True, {}, []], [1, None, True, {}, [], "a", "b"]),
    ],
)
async def test_values_of_different_kinds_have_an_order(
    values: list[Any], expected: list[Any], room: Room
) -> None:
    things = list(enumerate(values))
    listing = Listing[tuple[int, Any]](
        lambda thing: ("", str(thing[0])), lambda thing: {"value": thing[1]}
    )
    answer = await listing.answer(call(room, sort="value"), things)
    assert answer.octets is not None
    assert [one["value"] for one in json.loads(answer.octets)] == expected
