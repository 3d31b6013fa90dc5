"""Limits are set one by one, and kept together: none is lost to another."""

from __future__ import annotations

import asyncio
import json

from amqpd.auth.users import User
from amqpd.http.answer import NO_CONTENT, Answer
from amqpd.http.api.limits import protect_vhost, put_user_limit, put_vhost_limit
from amqpd.http.api.vhosts import put_vhost
from amqpd.http.call import Call
from amqpd.http.endpoint import Handler
from amqpd.http.room import Room
from tests.support.connection_pair import Bench
from tests.support.http_room import room_of

ADMIN = User("guest", "", tags=("administrator",))


def call(room: Room, content: object, **names: str) -> Call:
    async def read_body() -> bytes:
        return json.dumps(content).encode()

    return Call(room, ADMIN, names, {}, {}, read_body)


async def at_once(bench: Bench, *asked: tuple[Handler, Call]) -> list[Answer]:
    """Ask all of it before anything is committed."""
    answers = asyncio.gather(*(handler(each) for handler, each in asked))
    while not answers.done():
        await asyncio.sleep(0)
        if bench.broker.metadata_has_work():
            bench.commit()
    return await answers


async def test_limits_that_are_set_at_once_all_hold(bench: Bench) -> None:
    room = room_of(bench)
    for handler, owner in ((put_vhost_limit, {"vhost": "/"}), (put_user_limit, {})):
        last = "max-channels" if handler is put_user_limit else "max-queues"
        asked = [
            (handler, call(room, {"value": 5}, name=name, user="guest", **owner))
            for name in ("max-connections", last)
        ]
        assert await at_once(bench, *asked) == [NO_CONTENT] * 2
    admission = bench.broker.admission
    assert admission.limits_of_vhost("/") == {"max-connections": 5, "max-queues": 5}
    assert admission.limits_of_user("guest") == {
        "max-connections": 5,
        "max-channels": 5,
    }


async def test_metadata_that_is_set_at_once_all_holds(bench: Bench) -> None:
    room = room_of(bench)
    await at_once(
        bench,
        (put_vhost, call(room, {"description": "about"}, vhost="/")),
        (put_vhost, call(room, {"tags": "a"}, vhost="/")),
        (protect_vhost, call(room, {}, vhost="/")),
    )
    metadata = bench.broker.vhosts["/"].metadata
    assert (metadata.description, metadata.tags) == ("about", ("a",))
    assert metadata.protected_from_deletion
