"""amqpctl against a broker: every verb does what it says, and says what it did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import commands

from amqpd.testing import AmqpdServer
from tests.support.ctl import Ctl
from tests.support.http_client import HttpClient
from tests.support.raw_client import Endpoint, RawClient
from tests.support.waiting import eventually

RIGHTS = (".*", ".*", ".*")


@pytest.fixture(scope="module")
def server() -> Iterator[AmqpdServer]:
    with AmqpdServer(http=True) as running:
        yield running


@pytest.fixture
def ctl(server: AmqpdServer) -> Ctl:
    return Ctl(server.http_url)


@pytest.fixture
def vhost(ctl: Ctl) -> Iterator[str]:
    """A virtual host of the test's own, in which guest may do everything."""
    ctl.done("add_vhost", "v/1")
    ctl.done("set_permissions", "-p", "v/1", "guest", *RIGHTS)
    yield "v/1"
    ctl("delete_vhost", "v/1")


@pytest.fixture
def jane(ctl: Ctl) -> Iterator[str]:
    ctl.done("add_user", "jane", "secret")
    yield "jane"
    ctl("delete_user", "jane")


@pytest.fixture
def client(server: AmqpdServer, vhost: str) -> Iterator[RawClient]:
    """A connection to that virtual host with channel 1 open."""
    with connected(server, vhost) as client:
        yield client.open_channel()


def connected(server: AmqpdServer, vhost: str) -> RawClient:
    url = server.url + vhost.replace("/", "%2F")
    return RawClient(Endpoint.from_url(url)).open()


def declare(server: AmqpdServer, path: str, content: object) -> None:
    with HttpClient(server.http_port, "guest", "guest") as client:
        assert client.put(path, content).status in (201, 204)


@pytest.fixture
def queue(server: AmqpdServer, vhost: str) -> str:
    content = {"durable": True, "arguments": {"x-max-length": 5}}
    declare(server, "/api/queues/v%2F1/q", content)
    return "q"


# -- users ------------------------------------------------------------------------


def test_a_user_who_is_added_may_log_in_and_has_no_tags(ctl: Ctl, jane: str) -> None:
    assert ctl.done("authenticate_user", jane, "secret") == "Success\n"
    assert ("jane", []) in ctl.rows("list_users")


def test_a_user_who_is_there_is_not_overwritten(ctl: Ctl, jane: str) -> None:
    printed = ctl("add_user", jane, "other")
    assert printed.code == 70
    assert printed.err == 'amqpctl: User "jane" already exists\n'
    ctl.done("authenticate_user", jane, "secret")


def test_a_password_can_be_piped_in(ctl: Ctl, jane: str) -> None:
    ctl.done("change_password", jane, stdin=b"piped\n")
    ctl.done("authenticate_user", jane, stdin=b"piped\n")


def test_a_hash_can_be_given_for_a_password(ctl: Ctl, jane: str) -> None:
    ctl.done("delete_user", jane)
    stored = ctl.done("hash_password", "hashed").strip()
    ctl.done("add_user", jane, stored, "--pre-hashed-password")
    ctl.done("authenticate_user", jane, "hashed")


def test_a_wrong_password_is_a_data_error(ctl: Ctl, jane: str) -> None:
    printed = ctl("authenticate_user", jane, "wrong")
    assert printed.code == 65
    assert 'failed to authenticate user "jane"' in printed.err


def test_a_changed_password_leaves_the_tags(ctl: Ctl, jane: str) -> None:
    ctl.done("set_user_tags", jane, "management", "x")
    ctl.done("change_password", jane, "new")
    ctl.done("authenticate_user", jane, "new")
    assert ("jane", ["management", "x"]) in ctl.rows("list_users")


def test_changed_tags_leave_the_password(ctl: Ctl, jane: str) -> None:
    ctl.done("set_user_tags", jane, "monitoring")
    ctl.done("authenticate_user", jane, "secret")
    ctl.done("set_user_tags", jane)
    assert ("jane", []) in ctl.rows("list_users")


def test_a_cleared_password_lets_nobody_in(ctl: Ctl, jane: str) -> None:
    ctl.done("clear_password", jane)
    assert ctl("authenticate_user", jane, "secret").code == 65
    assert ctl("authenticate_user", jane, "").code == 65


@pytest.mark.parametrize(
    "words",
    [
        ["delete_user", "nobody"],
        ["change_password", "nobody", "x"],
        ["clear_password", "nobody"],
        ["set_user_tags", "nobody", "x"],
        ["set_permissions", "nobody", *RIGHTS],
        ["clear_permissions", "nobody"],
        ["list_user_permissions", "nobody"],
        ["set_user_limits", "nobody", "{}"],
    ],
)
def test_who_is_not_there_is_named(ctl: Ctl, words: list[str]) -> None:
    printed = ctl(*words)
    assert printed.code == 67
    assert printed.err == 'amqpctl: User "nobody" does not exist\n'


# -- virtual hosts and permissions ------------------------------------------------


def test_a_virtual_host_that_is_added_lets_nobody_in(ctl: Ctl) -> None:
    ctl.done("add_vhost", "empty", "--description", "d", "--tags", "a,b")
    try:
        assert ctl.rows("list_permissions", "-p", "empty") == []
        facts = ctl.json("list_vhosts", "name", "description", "tags")
        expected = {"name": "empty", "description": "d", "tags": ["a", "b"]}
        assert expected in facts
        # Again: what is there stays, as with `rabbitmqctl`.
        ctl.done("set_permissions", "-p", "empty", "guest", *RIGHTS)
        ctl.done("add_vhost", "empty")
        assert ctl.rows("list_permissions", "-p", "empty") == [("guest", *RIGHTS)]
    finally:
        ctl.done("delete_vhost", "empty")


def test_tracing_leaves_the_rest_of_a_virtual_host(ctl: Ctl, vhost: str) -> None:
    ctl.done("update_vhost_metadata", vhost, "--description", "d", "--tags", "a")
    said = ctl.done("trace_on", "-p", vhost)
    columns = ("name", "tracing", "description", "tags")
    assert said == "Trace enabled for vhost v/1\n"
    assert (vhost, True, "d", ["a"]) in ctl.rows("list_vhosts", *columns)
    ctl.done("trace_off", "-p", vhost)
    ctl.done("set_vhost_tags", vhost, "b", "c")
    assert (vhost, False, "d", ["b", "c"]) in ctl.rows("list_vhosts", *columns)


def test_a_protected_virtual_host_is_not_deleted(ctl: Ctl, vhost: str) -> None:
    ctl.done("enable_vhost_protection_from_deletion", vhost)
    refused = ctl("delete_vhost", vhost)
    ctl.done("disable_vhost_protection_from_deletion", vhost)
    assert refused.code != 0
    ctl.done("delete_vhost", vhost)


@pytest.mark.parametrize(
    "words",
    [
        ["delete_vhost", "nowhere"],
        ["list_queues", "-p", "nowhere"],
        ["list_permissions", "-p", "nowhere"],
        ["list_policies", "-p", "nowhere"],
        ["set_policy", "-p", "nowhere", "a", "b", '{"max-length": 1}'],
        ["set_vhost_limits", "-p", "nowhere", "{}"],
        ["trace_on", "-p", "nowhere"],
    ],
)
def test_where_nothing_is_is_named(ctl: Ctl, words: list[str]) -> None:
    printed = ctl(*words)
    assert printed.code == 65
    assert printed.err == "amqpctl: Virtual host 'nowhere' does not exist\n"


def test_permissions_are_set_listed_and_cleared(
    ctl: Ctl, vhost: str, jane: str
) -> None:
    ctl.done("set_permissions", "-p", vhost, jane, "^a", "", ".*")
    assert (jane, "^a", "", ".*") in ctl.rows("list_permissions", "-p", vhost)
    assert ctl.rows("list_user_permissions", jane) == [(vhost, "^a", "", ".*")]
    ctl.done("clear_permissions", "-p", vhost, jane)
    assert ctl.rows("list_user_permissions", jane) == []
    # Nothing to clear is no failure.
    ctl.done("clear_permissions", "-p", vhost, jane)


def test_permissions_can_be_set_in_all_virtual_hosts(
    ctl: Ctl, vhost: str, jane: str
) -> None:
    ctl.done("set_permissions_globally", jane, "a", "b", "c")
    given = ctl.rows("list_user_permissions", jane)
    assert sorted(given) == [("/", "a", "b", "c"), (vhost, "a", "b", "c")]


def test_topic_permissions_are_set_listed_and_cleared(
    ctl: Ctl, vhost: str, jane: str
) -> None:
    ctl.done("set_topic_permissions", "-p", vhost, jane, "amq.topic", "^a", "^b")
    row = ("amq.topic", "^a", "^b")
    assert ctl.rows("list_topic_permissions", "-p", vhost) == [(jane, *row)]
    assert ctl.rows("list_user_topic_permissions", jane) == [(vhost, *row)]
    ctl.done("clear_topic_permissions", "-p", vhost, jane, "amq.topic")
    assert ctl.rows("list_topic_permissions", "-p", vhost) == []


def test_who_lacks_a_tag_is_told_which_would_help(
    server: AmqpdServer, ctl: Ctl, jane: str
) -> None:
    ctl.done("set_user_tags", jane, "management")
    theirs = Ctl(server.http_url.replace("guest:guest", "jane:secret"))
    printed = theirs("list_users")
    assert printed.code == 69
    assert 'user "jane" is refused: Not administrator user' in printed.err
    assert "set_user_tags jane administrator" in printed.err


# -- queues and messages ----------------------------------------------------------


def test_queues_have_the_columns_that_are_asked_for(
    ctl: Ctl, vhost: str, queue: str
) -> None:
    ctl.done("publish", "-p", vhost, "", queue, "hello")
    columns = ("name", "messages", "durable", "arguments", "policy", "owner_pid")
    assert ctl.rows("list_queues", "-p", vhost, *columns) == [
        (queue, 1, True, {"x-max-length": 5}, None, None)
    ]
    assert ctl.done("-q", "list_queues", "-p", vhost) == "name\tmessages\nq\t1\n"


def test_exchanges_and_bindings_are_listed(
    server: AmqpdServer, ctl: Ctl, vhost: str, queue: str
) -> None:
    declare(server, "/api/exchanges/v%2F1/x", {"type": "fanout", "durable": True})
    with HttpClient(server.http_port, "guest", "guest") as client:
        body = {"routing_key": "a.b", "arguments": {}}
        assert client.post("/api/bindings/v%2F1/e/x/q/q", body).status == 201
    assert ("x", "fanout", True) in ctl.rows(
        "list_exchanges", "-p", vhost, "name", "type", "durable"
    )
    bindings = ctl.rows("list_bindings", "-p", vhost)
    assert ("x", "exchange", queue, "queue", "a.b", {}) in bindings
    assert ("", "exchange", queue, "queue", queue, {}) in bindings


def test_connections_channels_and_consumers_are_listed(
    ctl: Ctl, vhost: str, queue: str, client: RawClient
) -> None:
    consume = commands.Basic.Consume(0, queue, "tag")
    client.call(1, commands.Basic.Qos(0, 7), commands.Basic.QosOk)
    client.call(1, consume, commands.Basic.ConsumeOk)
    [(name, user, where, channels)] = ctl.rows(
        "list_connections", "name", "user", "vhost", "channels"
    )
    assert (user, where, channels) == ("guest", vhost, 1)
    assert ctl.rows("list_channels", "connection", "number", "consumer_count") == [
        (name, 1, 1)
    ]
    assert ctl.rows("list_consumers", "-p", vhost) == [
        (queue, f"{name} (1)", "tag", True, 7, True, {})
    ]


def test_a_message_is_published_looked_at_and_taken(
    ctl: Ctl, vhost: str, queue: str
) -> None:
    properties = '{"content_type": "text/plain", "headers": {"n": 1}}'
    ctl.done(
        *("publish", "-p", vhost, "amq.default", queue, "héllo"),
        *("--persistent", "--properties", properties),
    )
    [seen] = ctl.json("get", "-p", vhost, queue)
    [taken] = ctl.json("get", "-p", vhost, queue, "--ackmode", "ack_requeue_false")
    assert seen["payload"] == taken["payload"] == "héllo"
    assert seen["properties"]["headers"] == {"n": 1}
    assert seen["properties"]["delivery_mode"] == 2
    assert taken["redelivered"] is True
    assert ctl.json("get", "-p", vhost, queue) == []


def test_a_payload_can_be_piped_in_whatever_octets_it_has(
    ctl: Ctl, vhost: str, queue: str
) -> None:
    ctl.done("publish", "-p", vhost, "", queue, stdin=b"\xff\x00")
    ctl.done("publish", "-p", vhost, "", queue, "/wA=", "--base64")
    first, second = ctl.json("get", "-p", vhost, queue, "--count", "2")
    assert first["payload"] == second["payload"] == "/wA="
    assert first["payload_encoding"] == "base64"


def test_a_long_payload_can_be_cut(ctl: Ctl, vhost: str, queue: str) -> None:
    ctl.done("publish", "-p", vhost, "", queue, "0123456789")
    [message] = ctl.json("get", "-p", vhost, queue, "--truncate", "4")
    assert (message["payload"], message["payload_bytes"]) == ("0123", 10)


def test_an_exchange_that_is_not_there_is_named(ctl: Ctl, vhost: str) -> None:
    printed = ctl("publish", "-p", vhost, "nope", "k", "x")
    assert printed.code != 0
    assert "no exchange 'nope' in vhost 'v/1'" in printed.err


def test_a_queue_in_use_is_kept_if_that_is_asked_for(
    ctl: Ctl, vhost: str, queue: str, client: RawClient
) -> None:
    client.call(1, commands.Basic.Consume(0, queue), commands.Basic.ConsumeOk)
    assert ctl("delete_queue", "-p", vhost, queue, "--if-unused").code == 69
    assert ctl.rows("list_queues", "-p", vhost) == [(queue, 0)]


def test_a_message_that_no_queue_takes_is_a_failure(ctl: Ctl, vhost: str) -> None:
    printed = ctl("publish", "-p", vhost, "", "nowhere", "x")
    assert printed.code == 65
    assert printed.err == "amqpctl: published, but no queue took it\n"


def test_a_queue_is_purged_and_deleted(ctl: Ctl, vhost: str, queue: str) -> None:
    for _ in range(2):
        ctl.done("publish", "-p", vhost, "", queue, "x")
    ctl.done("purge_queue", "-p", vhost, queue)
    assert ctl.rows("list_queues", "-p", vhost) == [(queue, 0)]
    ctl.done("publish", "-p", vhost, "", queue, "x")
    assert ctl("delete_queue", "-p", vhost, queue, "--if-empty").code == 69
    said = ctl.done("delete_queue", "-p", vhost, queue)
    assert said == "Queue was successfully deleted with 1 ready messages\n"
    assert ctl.rows("list_queues", "-p", vhost) == []


def test_a_queue_that_is_not_there_is_named(ctl: Ctl) -> None:
    assert ctl("delete_queue", "nope").code == 64
    printed = ctl("purge_queue", "nope")
    assert printed.code == 69
    assert printed.err == "amqpctl: no queue 'nope' in vhost '/'\n"
    assert ctl("get", "nope").err == "amqpctl: no queue 'nope' in vhost '/'\n"


# -- connections ------------------------------------------------------------------


def test_a_connection_is_closed_with_a_reason(
    ctl: Ctl, vhost: str, client: RawClient
) -> None:
    [(name,)] = ctl.rows("list_connections", "pid")
    ctl.done("close_connection", name, "be gone")
    closed = client.expect_close(0)
    assert (closed.code, closed.text) == (320, "CONNECTION_FORCED - be gone")
    # As with `rabbitmqctl`: whoever wants it closed has what is wanted.
    eventually(lambda: ctl.rows("list_connections") == [])
    printed = ctl("close_connection", name, "again")
    assert (printed.code, printed.err) == (0, f"there is no connection {name}\n")


def test_all_connections_of_a_virtual_host_are_closed_and_no_others(
    server: AmqpdServer, ctl: Ctl, vhost: str, client: RawClient
) -> None:
    with connected(server, "") as other:
        said = ctl.done("close_all_connections", "-p", vhost, "maintenance")
        assert said == "Closed 1 connections\n"
        assert client.expect_close(0).text == "CONNECTION_FORCED - maintenance"
        other.open_channel()
        assert ctl.done("close_all_connections", "--global", "bye") in (
            "Closed 1 connections\n",
            # The first one may still be there, closing.
            "Closed 2 connections\n",
        )
        assert other.expect_close(0).text == "CONNECTION_FORCED - bye"


def test_no_more_connections_are_closed_than_is_said(
    server: AmqpdServer, ctl: Ctl, vhost: str, client: RawClient
) -> None:
    with connected(server, vhost) as second:
        said = ctl.done("close_all_connections", "-p", vhost, "--limit", "1", "why")
        assert said == "Closed 1 connections\n"
        closed = client.next_frame().method
        assert isinstance(closed, commands.Connection.Close)
        second.open_channel()


def test_a_script_that_names_no_virtual_host_means_the_first_one(
    server: AmqpdServer, ctl: Ctl, client: RawClient
) -> None:
    with connected(server, "") as first:
        words = ("close_all_connections", "--per-connection-delay", "1", "why")
        printed = ctl.tool("rabbitmqctl", "-q", *words)
        assert printed.out == "Closed 1 connections\n"
        assert first.expect_close(0).code == 320
        client.open_channel(2)


def test_all_connections_of_a_user_are_closed(ctl: Ctl, client: RawClient) -> None:
    ctl.done("close_all_user_connections", "guest", "why")
    assert client.expect_close(0).code == 320


# -- policies, parameters, limits -------------------------------------------------


def test_a_policy_is_set_applies_and_is_cleared(
    ctl: Ctl, vhost: str, queue: str
) -> None:
    definition = '{"max-length": 3}'
    options = ("--priority", "2", "--apply-to", "queues")
    ctl.done("set_policy", "-p", vhost, "p", "^q", definition, *options)
    assert ctl.rows("list_policies", "-p", vhost) == [
        (vhost, "p", "^q", "queues", {"max-length": 3}, 2)
    ]
    assert ctl.rows("list_queues", "-p", vhost, "name", "policy") == [(queue, "p")]
    ctl.done("clear_policy", "-p", vhost, "p")
    assert ctl.rows("list_policies", "-p", vhost) == []
    printed = ctl("clear_policy", "-p", vhost, "p")
    assert (printed.code, printed.err) == (
        69,
        "amqpctl: no policy 'p' in vhost 'v/1'\n",
    )


def test_an_operator_policy_is_set_and_cleared(ctl: Ctl, vhost: str) -> None:
    ctl.done("set_operator_policy", "-p", vhost, "o", "", '{"max-length": 3}')
    assert ctl.rows("list_operator_policies", "-p", vhost) == [
        (vhost, "o", "", "queues", {"max-length": 3}, 0)
    ]
    ctl.done("clear_operator_policy", "-p", vhost, "o")
    assert ctl.rows("list_operator_policies", "-p", vhost) == []


def test_a_policy_that_the_broker_refuses_is_told_in_its_words(ctl: Ctl) -> None:
    printed = ctl("set_policy", "p", "", '{"bogus": 1}')
    assert printed.code == 69
    assert "not recognised policy settings" in printed.err


def test_global_parameters_are_set_and_cleared(ctl: Ctl) -> None:
    ctl.done("set_global_parameter", "mine", '{"a": [1]}')
    assert ("mine", {"a": [1]}) in ctl.rows("list_global_parameters")
    ctl.done("clear_global_parameter", "mine")
    printed = ctl("clear_global_parameter", "mine")
    assert (printed.code, printed.err) == (69, "amqpctl: Parameter does not exist\n")


def test_a_parameter_of_no_known_component_is_refused(ctl: Ctl) -> None:
    printed = ctl("set_parameter", "nothing", "n", "1")
    assert printed.code == 69
    assert "component nothing not found" in printed.err
    assert ctl("clear_parameter", "nothing", "n").code == 69


def test_limits_of_a_virtual_host_are_set_as_a_whole(ctl: Ctl, vhost: str) -> None:
    ctl.done("set_vhost_limits", "-p", vhost, '{"max-queues": 5, "max-connections": 1}')
    ctl.done("set_vhost_limits", "-p", vhost, '{"max-queues": 6}')
    assert ctl.json("list_vhost_limits", "-p", vhost) == {"max-queues": 6}
    assert (vhost, {"max-queues": 6}) in ctl.rows("list_vhost_limits", "--global")
    ctl.done("clear_vhost_limits", "-p", vhost)
    assert ctl.json("list_vhost_limits", "-p", vhost) == {}


def test_limits_of_a_user_are_set_and_cleared(ctl: Ctl, jane: str) -> None:
    ctl.done("set_user_limits", jane, '{"max-connections": 1, "max-channels": 2}')
    ctl.done("clear_user_limits", jane, "max-channels")
    assert ctl.json("list_user_limits", "--user", jane) == {"max-connections": 1}
    assert (jane, {"max-connections": 1}) in ctl.rows("list_user_limits")
    ctl.done("clear_user_limits", jane, "all")
    assert ctl.json("list_user_limits", "--user", jane) == {}


# -- definitions ------------------------------------------------------------------


def test_what_is_exported_can_be_imported_again(
    ctl: Ctl, vhost: str, queue: str, jane: str, tmp_path: Path
) -> None:
    path = tmp_path / "definitions.json"
    ctl.done("set_permissions", "-p", vhost, jane, *RIGHTS)
    ctl.done("export_definitions", str(path))
    ctl.done("delete_vhost", vhost)
    ctl.done("delete_user", jane)
    printed = ctl("import_definitions", str(path))
    assert printed.code == 0
    assert "imported: " in printed.err
    assert ctl.rows("list_queues", "-p", vhost) == [(queue, 0)]
    assert ctl.rows("list_user_permissions", jane) == [(vhost, *RIGHTS)]
    ctl.done("authenticate_user", jane, "secret")


def test_definitions_of_a_virtual_host_go_through_pipes(
    ctl: Ctl, vhost: str, queue: str
) -> None:
    exported = ctl.done("export_definitions", "-", "-p", vhost)
    ctl.done("delete_queue", "-p", vhost, queue)
    ctl.done("import_definitions", "-p", vhost, stdin=exported.encode())
    assert ctl.rows("list_queues", "-p", vhost) == [(queue, 0)]
    assert "users" not in json.loads(exported)


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'"x"'])
def test_what_are_no_definitions_is_not_sent(ctl: Ctl, data: bytes) -> None:
    printed = ctl("import_definitions", stdin=data)
    assert printed.code == 65
    assert "standard input" in printed.err


def test_a_file_that_is_too_large_is_refused_with_the_reason(ctl: Ctl) -> None:
    data = json.dumps({"explanation": "x" * 40_000_000}).encode()
    printed = ctl("import_definitions", stdin=data)
    assert printed.code != 0
    assert "body size limit" in printed.err or "too large" in printed.err


# -- completion --------------------------------------------------------------------


def test_names_are_completed_from_what_is_there(
    ctl: Ctl, vhost: str, queue: str
) -> None:
    assert ctl.completed("purge_queue", "-p", vhost, "") == [queue]
    assert ctl.completed("list_queues", "-p", "v") == [vhost]
    assert ctl.completed("delete_user", "gu") == ["guest"]
