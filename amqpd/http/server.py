"""The HTTP server of the management API: aiohttp on the broker's loop.

    request > path > method > login > tag and virtual host > handler > answer

Paths are taken as they came (`path_table`), so aiohttp is used for what it does best:
reading requests and writing answers. Everything that a client could draw out is cut
short: the first request on a connection, a body, and an answer that nobody reads; and
what is refused is JSON, as RabbitMQ writes it.
"""

from __future__ import annotations

import asyncio
import logging
from ipaddress import ip_address
from typing import Final, final

from aiohttp import web

from amqpd.auth.users import User
from amqpd.http import compression
from amqpd.http.answer import Answer, json_answer
from amqpd.http.call import Call
from amqpd.http.endpoint import Endpoint, Need, check_allowed
from amqpd.http.errors import (
    BadRequest,
    HttpError,
    TooSlow,
)
from amqpd.http.login import Login
from amqpd.http.path_table import PathTable
from amqpd.http.room import Room

logger = logging.getLogger("amqpd.http")

FIRST_REQUEST_SECONDS: Final = 10.0
BODY_SECONDS: Final = 30.0
ANSWER_SECONDS: Final = 60.0
#: A large answer is written in pieces, each when the client has read the last.
PIECE_SIZE: Final = 256 * 1024
#: How long requests are given to end when the broker stops.
FAREWELL_SECONDS: Final = 1.0

OPTIONS: Final = "OPTIONS"
CREATING: Final = ("PUT", "POST")
ANONYMOUS: Final = User("", "")


@final
class HttpServer:
    """Answers by a table of endpoints whoever comes through the door."""

    def __init__(
        self,
        room: Room,
        endpoints: tuple[Endpoint, ...],
        first_request_seconds: float = FIRST_REQUEST_SECONDS,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        self._room = room
        self._first_request_seconds = first_request_seconds
        self._body_seconds = body_seconds
        self._paths = PathTable(endpoints)
        self._login = Login(
            room.broker.users,
            room.secrets,
            room.wake,
            room.loopback_users,
            room.attempts,
        )
        # Connections that have asked nothing yet.
        self._silent: set[object] = set()
        app = web.Application(client_max_size=room.body_size_max)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=FAREWELL_SECONDS,
            logger=logging.getLogger("amqpd.http.protocol"),
        )

    async def start(self) -> None:
        """Be ready to answer, wherever clients come from."""
        if self._runner.server is None:
            await self._runner.setup()

    async def stop(self) -> None:
        """End what goes on."""
        await self._runner.cleanup()

    def accept(self) -> asyncio.Protocol:
        """Return who speaks with a client that has come; it must be started."""
        server = self._runner.server
        assert server is not None
        protocol = server()
        self._silent.add(protocol)
        loop = asyncio.get_running_loop()
        loop.call_later(self._first_request_seconds, self._cut_if_silent, protocol)
        return protocol

    def _cut_if_silent(self, protocol: web.RequestHandler) -> None:
        """Who has asked nothing by now will not; aiohttp watches the others."""
        if protocol in self._silent:
            self._silent.discard(protocol)
            if protocol.transport is not None:
                protocol.transport.abort()

    # -- a request -----------------------------------------------------------

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self._silent.discard(request.protocol)
        try:
            answer = await self._answer(request)
        except HttpError as error:
            answer = _refused(error)
        except UnicodeEncodeError:
            # JSON can say halves of characters, which no name or key can have.
            answer = _refused(BadRequest("a text is no Unicode"))
        except Exception as error:
            logger.error(
                "%s %s: internal error",
                request.method,
                self._shown_path(request),
                exc_info=error,
            )
            answer = json_answer(
                {"error": "internal_server_error", "reason": "see the broker's log"},
                500,
            )
        return await self._write(request, answer)

    def _shown_path(self, request: web.Request) -> str:
        """Return the path as the table has it: what is asked for may be a password."""
        found = self._paths.find(request.method, request.rel_url.raw_path)
        return found.endpoint.path

    async def _answer(self, request: web.Request) -> Answer:
        path = request.rel_url.raw_path
        if request.method == OPTIONS:
            methods = self._paths.allowed(path)
            return Answer(headers={"Allow": methods})
        found = self._paths.find(request.method, path)
        user = ANONYMOUS
        if found.endpoint.need is not Need.NOTHING:
            header = request.headers.get("Authorization")
            user = await self._login.user_of(header, _is_loopback(request))
        call = Call(
            self._room,
            user,
            found.names,
            request.query,
            request.headers,
            lambda: _read_body(request, self._body_seconds),
        )
        check_allowed(found.endpoint, call)
        if request.method in CREATING:
            call.check_new_names()
        if "vhost" in found.names and found.endpoint.need is not Need.ADMINISTRATOR:
            call.vhost()
        return await found.endpoint.handler(call)

    async def _write(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        methods = answer.headers.get("Allow", "")
        headers = {
            "Cache-Control": "no-cache",
            "Server": "amqpd",
            **self._room.origins.headers(request.headers, methods),
            **answer.headers,
        }
        size = answer.size
        if answer.has_body:
            headers["Content-Type"] = answer.content_type
        accepted = request.headers.get("Accept-Encoding", "")
        if compression.is_worth_it(size) and compression.is_accepted(accepted):
            headers["Content-Encoding"] = "gzip"
            answer = Answer(await compression.packed(answer), answer.status)
            size = answer.size
        if size > PIECE_SIZE:
            return await _write_slowly(request, answer, headers)
        body = b"".join(answer.pieces(PIECE_SIZE)) if answer.has_body else None
        return web.Response(status=answer.status, headers=headers, body=body)


def _is_loopback(request: web.Request) -> bool:
    address = request.remote
    return address is not None and ip_address(address).is_loopback


async def _read_body(request: web.Request, seconds: float) -> bytes:
    try:
        async with asyncio.timeout(seconds):
            return await request.read()
    except TimeoutError:
        raise TooSlow("the body took too long") from None
    except web.HTTPRequestEntityTooLarge:
        raise BadRequest("Exceeded HTTP request body size limit") from None


def _refused(error: HttpError) -> Answer:
    if not error.reason:
        return Answer(None, error.status, error.headers)
    told = {"error": error.error, "reason": error.reason}
    return json_answer(told, error.status, error.headers)


async def _write_slowly(
    request: web.Request, answer: Answer, headers: dict[str, str]
) -> web.StreamResponse:
    """Write each piece when the client has read the last, if it does in time."""
    response = web.StreamResponse(status=answer.status, headers=headers)
    response.content_length = answer.size
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await response.prepare(request)
            for piece in answer.pieces(PIECE_SIZE):
                await response.write(piece)
            await response.write_eof()
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
    return response
