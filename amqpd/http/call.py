"""One request as a handler sees it: who asks, for what, with which body.

A handler is a coroutine that takes a `Call` and returns an `Answer` or raises an
`HttpError`. Names in the path are decoded (`%2F` is a slash in a name, never between
two); in exchange names `amq.default` stands for the default exchange.

A change of the broker calls back when it is done, which is when it is durable:

    await call.change(lambda done: vhost.delete_queue(access, name, ..., done))
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Generic, TypeVar, final

from amqpd.auth.permissions import DEFAULT_EXCHANGE_NAME
from amqpd.auth.users import User
from amqpd.broker.broker import Broker
from amqpd.broker.errors import AmqpError
from amqpd.broker.vhosts.access import Access
from amqpd.broker.vhosts.session import Session
from amqpd.broker.vhosts.vhost import VirtualHost
from amqpd.http.errors import BadRequest, NotAuthorised, ObjectNotFound, refusal
from amqpd.http.fields import require
from amqpd.http.json_text import parsed
from amqpd.http.room import Room

logger = logging.getLogger("amqpd.http")

T = TypeVar("T")

ADMINISTRATOR: Final = "administrator"
MONITORING: Final = "monitoring"
POLICYMAKER: Final = "policymaker"
MANAGEMENT: Final = "management"

#: Each of them lets a user in.
MANAGEMENT_TAGS: Final = frozenset({ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT})

_EXCHANGE_NAMES: Final = frozenset({"exchange", "source"})
#: Parts of paths that are names; others have an end or a form of their own.
_NAMES: Final = frozenset(
    {"vhost", "user", "queue", "exchange", "source", "destination", "component", "name"}
)
SHORT_STRING_SIZE_MAX: Final = 255
#: Bodies that say nothing, as RabbitMQ reads them.
_NOTHING: Final = (b"", b"null", b"undefined", b"true", b"false")

ReadBody = Callable[[], Awaitable[bytes]]


@final
class Call:
    """A request by somebody who may make it."""

    def __init__(
        self,
        room: Room,
        user: User,
        names: Mapping[str, str],
        query: Mapping[str, str],
        headers: Mapping[str, str],
        read_body: ReadBody,
    ) -> None:
        self.room = room
        self.user = user
        #: The variable parts of the path.
        self.names = names
        self.query = query
        self.headers = headers
        self._read_body = read_body

    @property
    def broker(self) -> Broker:
        """The broker."""
        return self.room.broker

    # -- who may see what ----------------------------------------------------

    @property
    def is_administrator(self) -> bool:
        """Whether the user may do everything."""
        return ADMINISTRATOR in self.user.tags

    @property
    def is_monitor(self) -> bool:
        """Whether the user may see everything."""
        return self.is_administrator or MONITORING in self.user.tags

    def may_enter(self, vhost_name: str) -> bool:
        """Whether the user has rights in a virtual host."""
        return self.broker.permissions.get(self.user.name, vhost_name) is not None

    def visible_vhosts(self) -> list[VirtualHost]:
        """The virtual hosts whose objects the user may list, by name.

        An administrator sees all, others those in which they have rights.
        """
        vhosts = self.broker.vhosts
        return [
            vhosts[name]
            for name in sorted(vhosts)
            if self.is_administrator or self.may_enter(name)
        ]

    def check_owner(self, user_name: str, closes: bool = False) -> None:
        """Check that the user may see (or close) a connection of another user.

        Raises:
            NotAuthorised: it is another's.
        """
        may = self.is_administrator if closes else self.is_monitor
        if not may and user_name != self.user.name:
            raise NotAuthorised("User not authorised to access object")

    # -- what it is about ----------------------------------------------------

    def check_new_names(self) -> None:
        """Check that what the path names may be called so.

        Clients of AMQP can say no other names. What is not to be made, but only looked
        for, is just not there.

        Raises:
            BadRequest: a name is too long or no text.
        """
        for kind in _NAMES & self.names.keys():
            try:
                size = len(self.names[kind].encode())
            except UnicodeEncodeError:
                raise BadRequest(f"{kind} should be UTF-8") from None
            if size > SHORT_STRING_SIZE_MAX:
                raise BadRequest(
                    f"{kind} should be less than {SHORT_STRING_SIZE_MAX} bytes, "
                    f"actually was {size}\n"
                )

    def name(self, key: str) -> str:
        """A variable part of the path."""
        name = self.names[key]
        if key in _EXCHANGE_NAMES and name == DEFAULT_EXCHANGE_NAME:
            return ""
        return name

    def vhost(self) -> VirtualHost:
        """The virtual host that the path names.

        Raises:
            ObjectNotFound: there is none of that name.
        """
        vhost = self.broker.vhosts.get(self.names["vhost"])
        if vhost is None:
            raise ObjectNotFound
        return vhost

    def vhosts(self) -> list[VirtualHost]:
        """The virtual host of the path, or all that the user may see.

        Raises:
            ObjectNotFound: there is none of that name.
        """
        return [self.vhost()] if "vhost" in self.names else self.visible_vhosts()

    def flag(self, key: str) -> bool:
        """Whether the query says `key=true`."""
        return self.query.get(key) == "true"

    async def octets(self) -> bytes:
        """The body as it came."""
        return await self._read_body()

    async def body(self) -> dict[str, Any]:
        """The JSON object in the body; empty if there is none.

        Raises:
            BadRequest: it is something else.
        """
        octets = (await self._read_body()).strip()
        if octets in _NOTHING:
            return {}
        try:
            content = await parsed(octets)
        except (ValueError, RecursionError):
            raise BadRequest("not_json") from None
        if isinstance(content, str):
            raise BadRequest(
                "invalid payload: the request body JSON-decoded to a string. "
                "Is the input doubly-JSON-encoded?"
            )
        if not isinstance(content, dict):
            raise BadRequest("not_json")
        return content

    async def body_with(self, *keys: str) -> dict[str, Any]:
        """The JSON object in the body, which has these keys.

        Raises:
            BadRequest: it has not, or there is no object.
        """
        content = await self.body()
        require(content, *keys)
        return content

    # -- doing something -----------------------------------------------------

    def access(self, vhost: VirtualHost) -> Access:
        """The user's rights in a virtual host; owns nothing that is exclusive."""
        return Access(self.user, vhost.name, self.broker.permissions, self)

    def session(self, vhost: VirtualHost) -> Session:
        """A place in a virtual host, to publish from.

        Raises:
            NotAuthorised: the user has no rights there.
        """
        if not self.may_enter(vhost.name):
            raise NotAuthorised("Access refused.")
        return Session(self.user, vhost, self.broker.permissions, self)

    async def change(
        self, begin: Callable[[Callable[[AmqpError | None], None]], None]
    ) -> None:
        """Begin a change of the broker and wait until it is durable.

        Raises:
            HttpError: the broker refuses it.
        """
        pending = Pending[None]()
        begin(pending.done)
        await self._result(pending)

    async def ask(
        self, kind: type[T], begin: Callable[[Callable[[T | AmqpError], None]], None]
    ) -> T:
        """Begin what has a result of some kind, and wait until it is durable.

        Raises:
            HttpError: the broker refuses it.
        """
        pending = Pending[T]()
        begin(pending.done)
        return await self._result(pending)

    async def _result(self, pending: Pending[T]) -> T:
        self.room.wake()
        result = await asyncio.shield(pending.future)
        if isinstance(result, AmqpError):
            raise refusal(result)
        return result


@final
class Pending(Generic[T]):
    """Waits for a change; the client may go away meanwhile, the change does not."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T | AmqpError] = loop.create_future()

    def done(self, result: T | AmqpError) -> None:
        """It is over."""
        if not self.future.done():
            self.future.set_result(result)
