"""A session finds routes, checks who may take them, and remembers both."""

from pathlib import Path

import pytest

from amqpd.auth.permissions import Permission, TopicPermission
from amqpd.broker.errors import AccessRefused, NotFound, ResourceLocked
from amqpd.broker.messages.message import Message
from amqpd.broker.vhosts.routes import Route
from amqpd.broker.vhosts.session import Session
from amqpd.wire.frames import HEAD_SIZE
from amqpd.wire.properties import walk_properties
from amqpd.wire.tables import Table, encode_table
from tests.support.content import header_frame, with_headers
from tests.support.control_plane import ControlPlane


def message(raw: bytes, table: Table | None = None) -> Message:
    """A message that was published to these names with these headers."""
    properties = b"\x00\x00" if table is None else with_headers(encode_table(table))
    content = header_frame(0, properties)
    facts = walk_properties(content, 7, len(content) - 1)
    return Message(raw + b"\xce", content, None, facts, 0)


@pytest.fixture
def plane(tmp_path: Path) -> ControlPlane:
    return ControlPlane(tmp_path)


def test_the_default_exchange_leads_to_the_queue_of_the_key(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    queue = plane.declare_queue(guest, "q").queue
    route = guest.find_route(b"\x00\x01q")
    assert (route.queues, route.address) == ([queue], b"\x00\x01q\xce")
    assert guest.routes.by_default == {b"\x00\x01q": route}


def test_a_way_to_a_queue_that_is_not_there_is_not_remembered(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    assert guest.find_route(b"\x00\x01q").queues == []
    assert guest.routes.by_default == {}


def test_a_named_exchange_leads_along_its_bindings(plane: ControlPlane) -> None:
    guest = plane.guest()
    queue = plane.declare_queue(guest, "q").queue
    plane.bind(guest, "amq.topic", "q", b"a.*")
    raw = b"\x09amq.topic\x03a.b"
    route = guest.find_route(raw)
    assert (route.queues, route.exchange_name) == ([queue], "amq.topic")
    assert guest.routes.by_name == {raw: route}


def test_a_route_is_current_until_its_exchange_changes(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.declare_queue(guest, "q")
    route = guest.find_route(b"\x0aamq.fanout\x00")
    assert route.is_current()
    plane.bind(guest, "amq.fanout", "q")
    assert not route.is_current()


def test_a_route_to_a_deleted_queue_is_not_current(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.declare_queue(guest, "q")
    route = guest.find_route(b"\x00\x01q")
    plane.delete_queue(guest, "q")
    assert not route.is_current()


def test_an_unknown_exchange_is_refused(plane: ControlPlane) -> None:
    with pytest.raises(NotFound, match="no exchange 'x' in vhost '/'"):
        plane.guest().find_route(b"\x01x\x00")


def test_a_name_that_is_no_text_is_an_unknown_exchange(plane: ControlPlane) -> None:
    with pytest.raises(NotFound):
        plane.guest().find_route(b"\x01\xff\x00")


def test_an_internal_exchange_takes_nothing_from_clients(plane: ControlPlane) -> None:
    with pytest.raises(AccessRefused) as caught:
        plane.guest().find_route(b"\x12amq.rabbitmq.trace\x00")
    assert caught.value.text == (
        "cannot publish to internal exchange 'amq.rabbitmq.trace' in vhost '/'"
    )


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b"\x00\x01q", "amq.default"),
        (b"\x01x\x00", "x"),
        (b"\x12amq.rabbitmq.trace\x00", "amq.rabbitmq.trace"),
    ],
)
def test_the_right_to_write_is_asked_first(
    plane: ControlPlane, raw: bytes, name: str
) -> None:
    joe = plane.user(".*", "^a$", ".*")
    expected = f"write access to exchange '{name}' in vhost '/' refused for user 'joe'"
    with pytest.raises(AccessRefused, match=expected):
        joe.find_route(raw)
    with pytest.raises(AccessRefused, match=expected):
        joe.route_message(message(raw), [])


def test_sessions_of_one_user_share_what_they_remember(plane: ControlPlane) -> None:
    plane.declare_queue(plane.guest(), "q")
    route = plane.guest().find_route(b"\x00\x01q")
    assert plane.guest().routes.by_default == {b"\x00\x01q": route}
    assert plane.user("", "", "").routes.by_default == {}


def test_a_change_of_rights_forgets_what_was_remembered(plane: ControlPlane) -> None:
    joe = plane.user(".*", ".*", ".*")
    for name in ("a", "b"):
        plane.declare_queue(joe, name)
    joe.find_route(b"\x00\x01a")
    plane.broker.permissions.put(Permission("joe", "/", "", "default", ""))
    joe.find_route(b"\x00\x01b")
    assert list(joe.routes.by_default) == [b"\x00\x01b"]


def test_rights_that_were_taken_away_are_gone(plane: ControlPlane) -> None:
    joe = plane.user(".*", ".*", ".*")
    plane.broker.permissions.remove("joe", "/")
    with pytest.raises(AccessRefused):
        joe.find_route(b"\x00\x01q")
    with pytest.raises(AccessRefused):
        joe.readable_queue("q")
    assert plane.declare_queue(joe, "q").refusal.startswith("403 configure access")


def test_a_route_that_asks_the_message_is_found_per_message(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    queue = plane.declare_queue(guest, "q").queue
    plane.bind(guest, "amq.headers", "q", table={"a": 1})
    raw = b"\x0bamq.headers\x00"
    assert guest.find_route(raw).asks_message
    assert guest.route_message(message(raw, {"a": 1}), []) == [queue]
    assert guest.route_message(message(raw, {"a": 2}), []) == []


HEADERS = b"\x0bamq.headers\x00"


def way(session: Session, table: Table, raw: bytes = HEADERS) -> Route:
    """The way of a message with these headers."""
    route = session.find_route(raw)
    assert route.asks_headers
    return session.find_way(route, message(raw, table).content, HEAD_SIZE)


def test_a_way_by_headers_asks_nothing_any_more_and_is_remembered(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    queue = plane.declare_queue(guest, "q").queue
    plane.bind(guest, "amq.headers", "q", table={"a": 1})
    found = way(guest, {"a": 1, "id": 7})
    assert (found.queues, found.exchange_name) == ([queue], "amq.headers")
    assert (found.address, found.asks_message) == (HEADERS + b"\xce", False)
    assert way(guest, {"a": 1, "id": 7}) is found
    assert way(guest, {"a": 1, "id": 8}) is not found
    assert way(guest, {"a": 2}).queues == []
    assert way(guest, {}).queues == []


def test_a_way_by_headers_holds_until_a_binding_changes(plane: ControlPlane) -> None:
    guest = plane.guest()
    one = plane.declare_queue(guest, "one").queue
    other = plane.declare_queue(guest, "other").queue
    plane.bind(guest, "amq.headers", "one", table={"a": 1})
    assert way(guest, {"a": 1}).queues == [one]
    plane.bind(guest, "amq.headers", "other", table={"a": 1})
    assert way(guest, {"a": 1}).queues == [one, other]
    plane.unbind(guest, "amq.headers", "one", table={"a": 1})
    assert way(guest, {"a": 1}).queues == [other]
    plane.delete_queue(guest, "other")
    assert way(guest, {"a": 1}).queues == []


def test_the_routing_key_is_part_of_a_way(plane: ControlPlane) -> None:
    guest = plane.guest()
    queue = plane.declare_queue(guest, "q").queue
    plane.bind(guest, "amq.headers", "amq.topic", table={}, to_exchange=True)
    plane.bind(guest, "amq.topic", "q", b"k")
    plane.commit()
    assert way(guest, {"a": 1}, b"\x0bamq.headers\x01k").queues == [queue]
    assert way(guest, {"a": 1}, b"\x0bamq.headers\x01l").queues == []


def test_a_way_that_crosses_more_than_headers_asks_each_message(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "random", "x-random")
    plane.bind(guest, "amq.headers", "random", table={"a": 1}, to_exchange=True)
    assert way(guest, {"a": 1}).asks_message
    assert not way(guest, {"a": 2}).asks_message


def test_while_the_firehose_is_on_no_way_is_remembered(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.vhost.set_tracing(True)
    route = guest.find_route(HEADERS)
    assert route.asks_message
    assert not route.asks_headers


def test_more_keys_reach_more_queues_once(plane: ControlPlane) -> None:
    guest = plane.guest()
    one = plane.declare_queue(guest, "one").queue
    other = plane.declare_queue(guest, "other").queue
    keys = [b"other", b"one", b"nobody"]
    assert guest.route_message(message(b"\x00\x03one"), keys) == [one, other]
    plane.bind(guest, "amq.direct", "other", b"k")
    raw = b"\x0aamq.direct\x01x"
    assert guest.route_message(message(raw), [b"k", b"k"]) == [other]


def test_reading_needs_the_right_before_the_queue(plane: ControlPlane) -> None:
    joe = plane.user("", "", "^a")
    expected = "read access to queue 'q' in vhost '/' refused for user 'joe'"
    with pytest.raises(AccessRefused, match=expected):
        joe.readable_queue("q")
    with pytest.raises(NotFound):
        joe.readable_queue("a")


def test_reading_needs_the_lock(plane: ControlPlane) -> None:
    owner = plane.guest()
    queue = plane.declare_queue(owner, "q", exclusive=True).queue
    assert owner.readable_queue("q") is queue
    with pytest.raises(ResourceLocked):
        plane.guest().readable_queue("q")


def test_new_names_differ(plane: ControlPlane) -> None:
    guest = plane.guest()
    one, other = guest.new_name("amq.ctag-"), guest.new_name("amq.ctag-")
    assert one.startswith("amq.ctag-")
    assert one != other


def test_a_key_that_is_longer_than_any_name_reaches_no_queue(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    queue = plane.declare_queue(guest, "q").queue
    keys = [b"k" * 256, b"q", b"k" * 255]
    assert guest.route_message(message(b"\x00\x01x"), keys) == [queue]


def test_routing_keys_of_a_topic_exchange_may_be_restricted(
    plane: ControlPlane,
) -> None:
    joe = plane.user(".*", ".*", ".*")
    rights = TopicPermission("joe", "/", "amq.topic", "^{username}\\.", "")
    plane.broker.permissions.put_topic(rights)
    expected = (
        "write access to topic 'jim.a' in exchange 'amq.topic' in vhost '/' "
        "refused for user 'joe'"
    )
    with pytest.raises(AccessRefused) as caught:
        joe.find_route(b"\x09amq.topic\x05jim.a")
    assert caught.value.text == expected
    allowed = b"\x09amq.topic\x05joe.a"
    joe.find_route(allowed)
    with pytest.raises(AccessRefused) as caught:
        joe.route_message(message(allowed), [b"jim.a"])
    assert caught.value.text == expected
    joe.find_route(b"\x0aamq.direct\x05jim.a")
    plane.guest().find_route(b"\x09amq.topic\x05jim.a")


def test_a_change_of_topic_rights_forgets_what_was_remembered(
    plane: ControlPlane,
) -> None:
    joe = plane.user(".*", ".*", ".*")
    raw = b"\x09amq.topic\x01a"
    joe.find_route(raw)
    plane.broker.permissions.put_topic(TopicPermission("joe", "/", "amq.topic", "", ""))
    joe.refresh_routes()
    assert joe.routes.by_name == {}
    with pytest.raises(AccessRefused):
        joe.find_route(raw)


@pytest.mark.parametrize("kind", ["x-consistent-hash", "x-modulus-hash"])
def test_a_restart_moves_no_key_to_another_queue(
    plane: ControlPlane, kind: str
) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "h", kind, durable=True)
    for name in ("c", "a", "b", "d"):
        plane.declare_queue(guest, name, durable=True)
    plane.commit()
    for name, weight in (("c", b"2"), ("a", b"1"), ("b", b"1"), ("d", b"3")):
        plane.bind(guest, "h", name, weight)
    plane.commit()

    def places() -> list[str]:
        found = []
        for number in range(50):
            key = str(number).encode()
            raw = b"\x01h" + bytes([len(key)]) + key
            (queue,) = plane.guest().find_route(raw).queues
            found.append(queue.name)
        return found

    before = places()
    plane.reopen()
    assert places() == before
    assert set(before) == set("abcd")
