"""A connection's place in a virtual host: whose it is, and where its messages go.

A session is made by connection.open and ends with the connection, taking its exclusive
queues along. It also finds routes: the way from (exchange, routing key) to queues,
checked against the user's rights and remembered per user and virtual host. A publish
looks there first, so what is here runs once per route and not once per message.
"""

from typing import Final, final

from mypy_extensions import i64

from amqpd.auth.permissions import PermissionTable
from amqpd.auth.users import User
from amqpd.broker.clients.admission import Admission
from amqpd.broker.errors import AccessRefused
from amqpd.broker.exchange import TOPIC, exchange_resource, no_exchange
from amqpd.broker.messages.message import Message
from amqpd.broker.messages.routed_message import RoutedHeaders, RoutedMessage
from amqpd.broker.queues.queue import Queue
from amqpd.broker.vhosts.access import Access
from amqpd.broker.vhosts.routes import Route
from amqpd.broker.vhosts.vhost import VirtualHost
from amqpd.wire.properties import headers_place
from routing.routable import Routable

# What stands behind exchange and routing key in the octets of a delivery.
FRAME_END = b"\xce"

SHORT_STRING_SIZE_MAX: Final = 255


@final
class Session(Access):
    """A user on a connection in a virtual host."""

    def __init__(
        self,
        user: User,
        vhost: VirtualHost,
        permissions: PermissionTable,
        connection: object,
        admission: Admission | None = None,
    ) -> None:
        super().__init__(user, vhost.name, permissions, connection)
        self.vhost = vhost
        # None: of somebody who is not connected, and not counted.
        self._admission = admission
        if admission is not None:
            admission.enter(user.name, vhost.name)
        self.routes = vhost.route_cache(user.name)
        # Who was asked for its way last, until it is taken.
        self._asked: RoutedMessage | None = None
        # For the firehose.
        self.connection_name = ""

    def find_route(self, raw: bytes) -> Route:
        """Return the way from an exchange and a routing key, as basic.publish has them.

        The route is remembered in `routes`, unless it leads nowhere by name: the
        queue may come any time.

        Raises:
            AccessRefused: the user may not publish there, or nobody may.
            NotFound: there is no such exchange.
        """
        self.refresh_routes()
        routes = self.routes
        name, key = _names(raw)
        self._check_publish(name, [key])
        if not name:
            queue = self.vhost.default_routes.get(raw)
            queues = [] if queue is None else [queue]
            route = Route(raw + FRAME_END, name, queues, None)
            if self.vhost.firehose is not None:
                route.ask_each_message()
            if queue is None:
                return route
        else:
            resolution = self.vhost.router.resolve(name, Routable([key]))
            route = Route(raw + FRAME_END, name, resolution.destinations, resolution)
            if self.vhost.firehose is not None:
                route.ask_each_message()
        routes.remember(raw, route)
        return route

    def find_way(self, route: Route, data: bytes, start: i64) -> Route:
        """Return the way of a message by a current route that asks for its headers.

        The payload of its content header begins at `start` and has been walked. Tables
        that are alike in their octets have one way, which is remembered.
        """
        table, end = headers_place(data, start)
        raw = route.address + data[table:end]
        way = self.routes.ways.get(raw)
        if way is not None and way.is_current():
            return way
        address, name = route.address, route.exchange_name
        _, key = _names(address[:-1])
        asking = RoutedHeaders([key], data, table, end)
        resolution = self.vhost.router.resolve(name, asking)
        way = Route(address, name, resolution.destinations, resolution)
        way.note_headers_asked()
        self.routes.remember_way(raw, way)
        return way

    def refresh_routes(self) -> None:
        """Forget remembered routes if anybody's rights have changed since."""
        generation = self.permission_generation()
        if self.routes.generation != generation:
            self.routes.clear()
            self.routes.generation = generation

    def route_message(self, message: Message, more_keys: list[bytes]) -> list[Queue]:
        """Return the queues of one message whose route asks the message.

        `more_keys` are routing keys besides the one that it was published with.

        Raises:
            AccessRefused: the user may not publish there, or nobody may.
            NotFound: there is no such exchange.
        """
        name, key = _names(message.address[:-1])
        keys = [key]
        if more_keys:
            # Each once: a message could bring thousands that are alike.
            keys = list(dict.fromkeys([key, *more_keys]))
        self._check_publish(name, keys)
        queues = self._destinations(name, message, keys)
        if self.vhost.firehose is not None:
            self.vhost.firehose.on_publish(
                message, keys, queues, self.user.name, self.connection_name
            )
        return queues

    def has_met_duplicate(self) -> bool:
        """Whether an exchange has kept the message that was asked for last."""
        return self._asked is not None and self._asked.is_duplicate

    def note_taken(self) -> None:
        """The message that was asked for its way last has been taken.

        Of what is in a transaction this is never said: it is compared with what came
        before, but nothing with it, since it may never be committed.
        """
        if self._asked is not None:
            self.vhost.surroundings.ledger.settle(self._asked)
            self._asked = None

    def _destinations(
        self, name: str, message: Message, keys: list[bytes]
    ) -> list[Queue]:
        self._asked = None
        if name:
            routed = self._asked = RoutedMessage(message, keys)
            routed.is_new = True
            return self.vhost.router.resolve(name, routed).destinations
        queues: list[Queue] = []
        for one in keys:
            # A key of CC may be longer than any queue's name.
            if len(one) <= SHORT_STRING_SIZE_MAX:
                raw = b"\x00" + bytes((len(one),)) + one
                queue = self.vhost.default_routes.get(raw)
                if queue is not None:
                    queues.append(queue)
        return queues

    def new_name(self, prefix: str) -> str:
        """A name that nobody has: of a consumer whose client gave it none."""
        return self.vhost.surroundings.new_name(prefix)

    def readable_queue(self, name: str) -> Queue:
        """Return a queue that the user may consume from, get from or purge.

        Raises:
            AccessRefused: the user may not read it.
            NotFound: there is none.
            ResourceLocked: it belongs to another connection.
        """
        self.check_read("queue", name)
        return self.vhost.find_queue(self, name)

    def renew(self, user: User) -> None:
        """The user has logged in anew: what was remembered may not be true any more."""
        self.user = user
        self.routes.clear()

    def enter_channel(self) -> None:
        """A channel is about to be opened.

        Raises:
            NotAllowed: the user has as many as it may have.
        """
        if self._admission is not None:
            self._admission.enter_channel(self.user.name)

    def check_consumer(self, count: int) -> None:
        """Check that a channel with so many consumers may have one more.

        Raises:
            NotAllowed: it may not.
        """
        if self._admission is not None:
            self._admission.check_consumer(count)

    def leave_channel(self) -> None:
        """A channel has been closed."""
        if self._admission is not None:
            self._admission.leave_channel(self.user.name)

    def close(self) -> None:
        """The connection has ended: its exclusive queues end with it."""
        if self._admission is not None and not self.is_closed:
            self._admission.leave(self.user.name, self.vhost_name)
        self.is_closed = True
        self.vhost.topology.delete_exclusive_queues(self.connection)

    def _check_publish(self, name: str, keys: list[bytes]) -> None:
        self.check_write("exchange", name)
        if not name:
            return
        exchange = self.vhost.exchanges.get(name)
        if exchange is None:
            raise no_exchange(name, self.vhost_name)
        if exchange.internal:
            resource = exchange_resource(name, self.vhost_name)
            raise AccessRefused(f"cannot publish to internal {resource}")
        if exchange.type_name == TOPIC:
            for key in keys:
                self.check_topic_write(name, key)


def _names(raw: bytes) -> tuple[str, bytes]:
    size = raw[0]
    name = raw[1 : 1 + size].decode("utf-8", "replace")
    return name, raw[2 + size :]
