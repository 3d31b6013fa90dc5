"""Remembered routes against routes found anew, while everything around them changes.

A publish that takes a remembered way must be refused, or reach the queues, exactly like
one that finds its way at that moment: whatever is declared, deleted, bound, allowed or
forbidden in between, and by whomever. With headers as without.
"""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from amqpd.auth.permissions import Permission, TopicPermission
from amqpd.broker.errors import AmqpError
from amqpd.broker.messages.message import Message
from amqpd.broker.queues.queue import Queue
from amqpd.broker.vhosts.routes import RouteCache
from amqpd.broker.vhosts.session import Session
from amqpd.wire.frames import HEAD_SIZE
from amqpd.wire.properties import walk_properties
from amqpd.wire.tables import Table, encode_table
from tests.support.content import header_frame, with_headers
from tests.support.control_plane import ControlPlane

TYPES = ["direct", "fanout", "topic", "headers", "x-consistent-hash", "x-modulus-hash"]
exchanges = st.sampled_from(["A", "B", "C"])
queues = st.sampled_from(["1", "2", "a"])
# Weights too, so that everything can be bound to a consistent hash exchange.
keys = st.sampled_from(["1", "2", "a"])
patterns = st.sampled_from(["", "^A", "[AB]", ".*", "default"])
topic_patterns = st.sampled_from(["", "^1", ".*"])
headers = st.dictionaries(st.sampled_from(["h", "i"]), st.sampled_from([1, "1"]))
alternates = st.sampled_from([None, "", "A", "B", "C"])


class RoutesMachine(RuleBasedStateMachine):
    """Two users publish through their caches."""

    @initialize()
    def start(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.plane = ControlPlane(Path(self.directory.name))
        self.guest = self.plane.guest()
        self.joe = self.plane.user(".*", ".*", ".*")

    def teardown(self) -> None:
        self.plane.bench.close()
        self.directory.cleanup()

    @rule(name=exchanges, kind=st.sampled_from(TYPES), alternate=alternates)
    def declare_exchange(self, name: str, kind: str, alternate: str | None) -> None:
        table: dict[str, object] = {}
        if alternate is not None:
            table["alternate-exchange"] = alternate
        self.plane.declare_exchange(self.guest, name, kind, table=table)

    @rule(name=exchanges)
    def delete_exchange(self, name: str) -> None:
        self.plane.delete_exchange(self.guest, name)

    @rule(name=queues)
    def declare_queue(self, name: str) -> None:
        self.plane.declare_queue(self.guest, name)

    @rule(name=queues)
    def delete_queue(self, name: str) -> None:
        self.plane.delete_queue(self.guest, name)

    @rule(
        source=exchanges,
        destination=st.one_of(queues, exchanges),
        key=keys,
        table=headers,
    )
    def bind(self, source: str, destination: str, key: str, table: Table) -> None:
        self.plane.bind(
            self.guest,
            source,
            destination,
            key.encode(),
            table=table,
            to_exchange=destination.isupper(),
        )

    @rule(
        source=exchanges,
        destination=st.one_of(queues, exchanges),
        key=keys,
        table=headers,
    )
    def unbind(self, source: str, destination: str, key: str, table: Table) -> None:
        self.plane.unbind(
            self.guest,
            source,
            destination,
            key.encode(),
            table=table,
            to_exchange=destination.isupper(),
        )

    @rule(write=patterns)
    def allow(self, write: str) -> None:
        rights = Permission("joe", "/", "", write, "")
        self.plane.broker.permissions.put(rights)

    @rule()
    def forbid(self) -> None:
        self.plane.broker.permissions.remove("joe", "/")

    @rule(exchange=exchanges, write=topic_patterns)
    def allow_topics(self, exchange: str, write: str) -> None:
        rights = TopicPermission("joe", "/", exchange, write, "")
        self.plane.broker.permissions.put_topic(rights)

    @rule(exchange=exchanges)
    def allow_all_topics(self, exchange: str) -> None:
        self.plane.broker.permissions.remove_topic("joe", "/", exchange)

    @rule(
        exchange=st.one_of(st.just(""), exchanges),
        key=keys,
        table=headers,
        by_joe=st.booleans(),
    )
    def publish(self, exchange: str, key: str, table: Table, by_joe: bool) -> None:
        raw = bytes([len(exchange)]) + exchange.encode() + b"\x01" + key.encode()
        session = self.joe if by_joe else self.guest
        content = header_frame(0, with_headers(encode_table(table)))
        assert remembered(session, raw, content) == found_anew(session, raw, content)


Found = tuple[list[Queue], bool] | str


def remembered(session: Session, raw: bytes, content: bytes) -> Found:
    """Go the way of basic.publish: look into the cache first."""
    session.refresh_routes()
    table = session.routes.by_name if raw[0] else session.routes.by_default
    route = table.get(raw)
    if route is None or not route.is_current():
        try:
            route = session.find_route(raw)
        except AmqpError as error:
            return error.text
    if route.asks_headers:
        route = session.find_way(route, content, HEAD_SIZE)
    return route.queues, route.asks_message


def found_anew(session: Session, raw: bytes, content: bytes) -> Found:
    """Ask the message itself, without remembering anything."""
    cache = session.routes
    session.routes = RouteCache()
    try:
        route = session.find_route(raw)
    except AmqpError as error:
        return error.text
    finally:
        session.routes = cache
    if not route.asks_headers:
        return route.queues, route.asks_message
    facts = walk_properties(content, HEAD_SIZE, len(content) - 1)
    message = Message(raw + b"\xce", content, None, facts, 0)
    return session.route_message(message, []), False


TestRoutes = RoutesMachine.TestCase
TestRoutes.settings = settings(deadline=None, max_examples=25, stateful_step_count=60)
