"""The door of the API: it listens at once, and opens for the first client."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import threading
from collections.abc import AsyncIterator

import pytest

from amqpd.http import door as doors
from amqpd.http.door import Door, check_installed
from tests.support.connection_pair import Bench
from tests.support.http_room import room_of
from tests.support.waiting import wait_until

LOGIN = base64.b64encode(b"guest:guest")
WHOAMI = (
    b"GET /api/whoami HTTP/1.1\r\nHost: x\r\nAuthorization: Basic %s\r\n\r\n" % LOGIN
)


@pytest.fixture
async def door(bench: Bench) -> AsyncIterator[Door]:
    door = Door(room_of(bench))
    yield door
    await door.stop()


async def status(port: int, said: bytes = WHOAMI) -> bytes:
    """Return the first line of the answer, nothing if there is none."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(said)
        return await asyncio.wait_for(reader.readline(), 30)
    except ConnectionResetError:
        return b""
    finally:
        await close(writer)


async def close(writer: asyncio.StreamWriter) -> None:
    """Close a socket, whoever closes it first."""
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def test_the_first_clients_and_the_later_ones_are_answered(door: Door) -> None:
    port = await door.listen("127.0.0.1", 0)
    assert not door.is_open
    first = await asyncio.gather(*(status(port) for _ in range(3)))
    assert door.is_open
    assert {*first, await status(port)} == {b"HTTP/1.1 200 OK\r\n"}


async def test_who_has_gone_before_it_opens_does_no_harm(door: Door) -> None:
    port = await door.listen("127.0.0.1", 0)
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    await close(writer)
    assert await status(port) == b"HTTP/1.1 200 OK\r\n"


async def test_who_waits_while_it_stops_is_turned_away(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_imported = threading.Event()
    monkeypatch.setattr(doors, "_import", is_imported.wait)
    door = Door(room_of(bench))
    port = await door.listen("127.0.0.1", 0)
    waiting = asyncio.create_task(status(port))
    await wait_until(lambda: door.is_called)
    await door.stop()
    assert await waiting == b""
    is_imported.set()


async def test_what_cannot_be_imported_turns_away_and_is_tried_again(
    door: Door, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise ImportError("half of it is missing")

    port = await door.listen("127.0.0.1", 0)
    with monkeypatch.context() as patched:
        patched.setattr(doors, "_import", broken)
        assert await status(port) == b""
    assert "the management API cannot answer" in caplog.text
    assert "half of it is missing" in caplog.text
    assert await status(port) == b"HTTP/1.1 200 OK\r\n"


async def test_where_it_listens_is_in_the_list_at_once(bench: Bench) -> None:
    room = room_of(bench)
    door = Door(room)
    port = await door.listen("127.0.0.1", 0)
    assert [(one.protocol, one.port) for one in room.listeners] == [("http", port)]
    with pytest.raises(OSError, match="address already in use"):
        await door.listen("127.0.0.1", port)
    await door.stop()


def test_a_library_that_is_missing_is_known_before_anybody_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_installed()
    monkeypatch.setattr(doors, "LIBRARY", "amqpd_has_no_such_library")
    with pytest.raises(ModuleNotFoundError):
        check_installed()
