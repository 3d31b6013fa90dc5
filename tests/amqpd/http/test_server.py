"""The HTTP server, in process: what a client may draw out is cut short."""

from __future__ import annotations

import asyncio
import base64
import gzip
from collections.abc import AsyncIterator

import pytest

from amqpd.http.answer import Answer, json_answer
from amqpd.http.call import Call
from amqpd.http.cors import Origins
from amqpd.http.door import Door
from amqpd.http.endpoint import Endpoint, Need
from amqpd.http.server import PIECE_SIZE, HttpServer
from tests.support.connection_pair import Bench
from tests.support.http_room import room_of

LOGIN = base64.b64encode(b"guest:guest").decode()
LARGE = b"x" * (3 * PIECE_SIZE + 1)


async def echo(call: Call) -> Answer:
    return json_answer(await call.body())


async def show_large(call: Call) -> Answer:
    return Answer(LARGE, content_type="text/plain")


async def fail(call: Call) -> Answer:
    raise ZeroDivisionError


ENDPOINTS = (
    Endpoint("POST", "/echo", Need.NOTHING, echo),
    Endpoint("GET", "/large", Need.NOTHING, show_large),
    Endpoint("GET", "/fail/{password}", Need.MANAGEMENT, fail),
)


@pytest.fixture
async def port(bench: Bench) -> AsyncIterator[int]:
    room = room_of(bench)
    server = HttpServer(room, ENDPOINTS, first_request_seconds=0.2, body_seconds=0.2)
    door = Door(room, server)
    yield await door.listen("127.0.0.1", 0)
    await door.stop()


async def exchange(port: int, request: bytes) -> tuple[bytes, bytes]:
    """Return head and body of the answer to some octets, after which we are quiet."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        lines = head.lower().split(b"\r\n")
        sizes = [
            int(line[15:]) for line in lines if line.startswith(b"content-length:")
        ]
        return head, await asyncio.wait_for(reader.readexactly(sizes[0]), 10)
    finally:
        writer.close()


def post(body: bytes, size: int | None = None) -> bytes:
    length = len(body) if size is None else size
    return (
        b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length + body
    )


async def wait_until_cut_off(port: int, said: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(said)
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await asyncio.wait_for(reader.readexactly(1), 10)
    writer.close()


@pytest.mark.parametrize("said", [b"", b"GET /large HT"])
async def test_who_does_not_ask_is_cut_off(said: bytes, port: int) -> None:
    await wait_until_cut_off(port, said)


async def test_who_has_asked_something_may_ask_again_later(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in (b"1", b"2"):
        writer.write(post(number.join((b'{"a":', b"}"))))
        await asyncio.wait_for(reader.readuntil(b'{"a":' + number), 10)
        # Whoever came after it and said nothing has had all the time there is.
        await wait_until_cut_off(port, b"")
    writer.close()


async def test_a_body_that_does_not_come_is_given_up(port: int) -> None:
    head, body = await exchange(port, post(b"{", 500))
    assert head.startswith(b"HTTP/1.1 408 ")
    assert body == b'{"error":"request_timeout","reason":"the body took too long"}'


async def test_too_large_a_body_is_refused(port: int) -> None:
    fits = b'{"a":"' + b"x" * 900 + b'"}'
    assert (await exchange(port, post(fits)))[1] == fits
    head, body = await exchange(port, post(b"x" * 1001))
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"Exceeded HTTP request body size limit" in body


async def test_a_large_answer_comes_in_pieces_and_whole(port: int) -> None:
    head, body = await exchange(port, b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"Content-Type: text/plain" in head
    assert body == LARGE


async def test_a_mistake_of_ours_is_a_500_and_a_traceback_in_the_log(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    login = f"Authorization: Basic {LOGIN}\r\n".encode()
    request = b"GET /fail/secret HTTP/1.1\r\nHost: x\r\n" + login + b"\r\n"
    head, body = await exchange(port, request)
    assert head.startswith(b"HTTP/1.1 500 ")
    assert b"internal_server_error" in body
    [record] = [one for one in caplog.records if one.levelname == "ERROR"]
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError
    assert record.getMessage() == "GET /fail/{password}: internal error"


async def test_it_says_its_own_name_only(port: int) -> None:
    head, _ = await exchange(port, post(b"{}"))
    assert b"\r\nServer: amqpd\r\n" in head


async def test_two_addresses_are_listed_and_left_together(bench: Bench) -> None:
    room = room_of(bench)
    door = Door(room, HttpServer(room, ENDPOINTS))
    first = await door.listen("127.0.0.1", 0)
    second = await door.listen("127.0.0.1", 0)
    listed = [(one.protocol, one.address, one.port) for one in room.listeners]
    await door.stop()
    assert listed == [("http", "127.0.0.1", first), ("http", "127.0.0.1", second)]
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection("127.0.0.1", first)


async def test_what_is_packed_for_who_takes_it_so(port: int) -> None:
    body = b'{"a":"' + b"x" * 900 + b'"}'
    said = post(body).replace(b"\r\n\r\n", b"\r\nAccept-Encoding: gzip\r\n\r\n", 1)
    head, packed = await exchange(port, said)
    assert b"content-encoding: gzip" in head.lower()
    assert gzip.decompress(packed) == body
    head, plain = await exchange(port, post(body))
    assert b"content-encoding" not in head.lower()
    assert plain == body


async def test_a_page_of_an_origin_that_may_is_told_so(bench: Bench) -> None:
    room = room_of(bench)
    room.origins = Origins(("https://a.example",))
    door = Door(room, HttpServer(room, ENDPOINTS))
    port = await door.listen("127.0.0.1", 0)
    asked = b"OPTIONS /echo HTTP/1.1\r\nHost: x\r\nOrigin: https://%s.example\r\n\r\n"
    head, _ = await exchange(port, asked % b"a")
    other, _ = await exchange(port, asked % b"b")
    assert b"Access-Control-Allow-Origin: https://a.example\r\n" in head
    assert b"Access-Control-Allow-Methods: OPTIONS, POST\r\n" in head
    assert b"Access-Control" not in other
    await door.stop()
