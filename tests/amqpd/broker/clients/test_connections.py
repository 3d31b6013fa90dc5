"""Who is connected is listed from open to end, and found in every way."""

from amqpd.broker.errors import ConnectionForced
from tests.support.connection_pair import Bench


def test_a_connection_is_listed_from_open_to_end(bench: Bench) -> None:
    connections = bench.broker.connections
    stranger = bench.accept()
    before = len(connections)
    pair = bench.connect()
    found = connections.all()
    pair.connection.lose_socket("gone")
    stranger.connection.lose_socket("gone")
    assert (before, len(found), len(connections)) == (0, 1, 0)
    assert (connections.opened_count, connections.closed_count) == (1, 1)
    assert found[0].get_name() == pair.connection.name


def test_a_connection_is_found_by_name_vhost_user_and_owner(bench: Bench) -> None:
    connections = bench.broker.connections
    pair = bench.connect()
    [found] = connections.all()
    name = found.get_name()
    assert connections.get(name) is found
    assert connections.get("nobody") is None
    assert connections.in_vhost("/") == [found]
    assert connections.in_vhost("other") == []
    assert connections.of_user("guest") == [found]
    assert connections.of_user("other") == []
    assert connections.of_owner(pair.connection) is found
    assert connections.of_owner(object()) is None


def test_removing_twice_is_removing_once(bench: Bench) -> None:
    connections = bench.broker.connections
    pair = bench.connect()
    connections.remove(pair.connection)
    connections.remove(pair.connection)
    assert (len(connections), connections.closed_count) == (0, 1)


def test_a_newcomer_of_the_same_name_stays_when_the_other_goes(bench: Bench) -> None:
    connections = bench.broker.connections
    pair = bench.connect()
    [first] = connections.all()
    owner = object()
    connections.add(first, owner)
    connections.remove(pair.connection)
    assert connections.of_owner(owner) is first


def test_a_connection_is_closed_with_a_reason(bench: Bench) -> None:
    pair = bench.connect()
    [found] = bench.broker.connections.all()
    found.close(ConnectionForced("because"), bench.now_ms)
    bench.turn()
    closed = pair.expect_close(0)
    assert (closed.code, closed.text) == (320, "CONNECTION_FORCED - because")
    assert bench.broker.connections.all() == []
    assert found.channel_count() == 0
