"""Users, rights and virtual hosts over HTTP, and what clients feel of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from pamqp import commands

from tests.server.conftest import Managed
from tests.support.http_client import HttpClient
from tests.support.raw_client import connection_closed

RIGHTS = {"configure": ".*", "write": ".*", "read": ".*"}


@pytest.fixture
def user(managed: Managed) -> Iterator[str]:
    """A user with the password "p" and all rights in the virtual host."""
    name = f"u-{uuid.uuid4().hex[:8]}"
    managed.admin.put(f"/api/users/{name}", {"password": "p", "tags": "management"})
    managed.admin.put(f"/api/permissions/{managed.vhost}/{name}", RIGHTS)
    yield name
    managed.admin.delete(f"/api/users/{name}")


def test_a_user_is_made_and_changed(managed: Managed) -> None:
    path = f"/api/users/u%2F{managed.vhost}"
    made = managed.admin.put(path, {"password": "p", "tags": "management, special"})
    first = managed.admin.get(path)
    changed = managed.admin.put(path, {"tags": ["monitoring"]})
    second = managed.admin.get(path)
    gone = managed.admin.delete(path)
    assert (made.status, changed.status, gone.status) == (201, 204, 204)
    assert (first["name"], first["tags"]) == (
        f"u/{managed.vhost}",
        ["management", "special"],
    )
    assert first["password_hash"]
    # Without a password there is none any more.
    assert (second["tags"], second["password_hash"]) == (["monitoring"], "")
    assert managed.admin.delete(path).status == 404


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "tags_not_present"),
        ({"tags": 5}, "tags must be a list of texts"),
        ({"tags": "", "password": 5}, "password must be a text"),
        (
            {"tags": "", "password": "a", "password_hash": "YQ=="},
            "both_password_and_password_hash_are_provided",
        ),
        ({"tags": "", "password_hash": "!"}, ["not_base64", "!"]),
        (
            {"tags": "", "password_hash": "YQ==", "hashing_algorithm": "nope"},
            "unknown password hashing algorithm 'nope'",
        ),
    ],
)
def test_a_user_that_makes_no_sense_is_refused(
    body: object, reason: object, managed: Managed
) -> None:
    reply = managed.admin.put("/api/users/strange", body)
    assert (reply.status, reply.reason) == (400, reason)


def test_a_hash_is_taken_as_it_is(managed: Managed, user: str) -> None:
    hashed = managed.admin.get("/api/auth/hash_password/secret")["ok"]
    managed.admin.put(
        f"/api/users/{user}", {"password_hash": hashed, "tags": "management"}
    )
    with HttpClient(managed.server.http_port, user, "secret") as client:
        assert client.get("/api/whoami") == {"name": user, "tags": ["management"]}


def test_a_changed_password_holds_at_once(managed: Managed, user: str) -> None:
    with HttpClient(managed.server.http_port, user, "p") as client:
        assert client.call("GET", "/api/whoami").status == 200
        managed.admin.put(f"/api/users/{user}", {"password": "n", "tags": "management"})
        reply = client.call("GET", "/api/whoami")
    assert reply.status == 401
    assert reply.json == {"error": "not_authorized", "reason": "Login failed"}
    assert reply.headers["WWW-Authenticate"] == 'Basic realm="RabbitMQ Management"'


def test_users_are_deleted_together_or_not_at_all(managed: Managed, user: str) -> None:
    refused = managed.admin.post("/api/users/bulk-delete", {"users": [user, "nobody"]})
    kept = managed.admin.call("GET", f"/api/users/{user}").status
    done = managed.admin.post("/api/users/bulk-delete", {"users": [user]})
    assert (refused.status, refused.reason) == (400, ["no_such_user", "nobody"])
    assert (kept, done.status) == (200, 204)
    assert managed.admin.call("GET", f"/api/users/{user}").status == 404


def test_rights_hold_at_once_and_go_at_once(managed: Managed, user: str) -> None:
    path = f"/api/permissions/{managed.vhost}/{user}"
    with managed.client(user, "p") as client:
        client.call(1, commands.Queue.Declare(0, "a"), commands.Queue.DeclareOk)
        changed = managed.admin.put(path, {**RIGHTS, "configure": "^b"})
        client.send_method(1, commands.Queue.Declare(0, "c"))
        close = client.next_frame().method
    assert changed.status == 204
    assert isinstance(close, commands.Channel.Close)
    assert close.reply_text == (
        f"ACCESS_REFUSED - configure access to queue 'c' in vhost '{managed.vhost}' "
        f"refused for user '{user}'"
    )


def test_rights_are_listed_by_user_and_by_virtual_host(
    managed: Managed, user: str
) -> None:
    rights = {"user": user, "vhost": managed.vhost, **RIGHTS}
    get = managed.admin.get
    assert get(f"/api/permissions/{managed.vhost}/{user}") == rights
    assert get(f"/api/users/{user}/permissions") == [rights]
    assert rights in get(f"/api/vhosts/{managed.vhost}/permissions")
    assert rights in get("/api/permissions")
    managed.admin.delete(f"/api/permissions/{managed.vhost}/{user}")
    without = get("/api/users/without-permissions")
    assert user in [one["name"] for one in without]
    again = managed.admin.delete(f"/api/permissions/{managed.vhost}/{user}")
    assert again.status == 404


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"configure": "", "write": ""}, "[{key_missing,read}]"),
        ({**RIGHTS, "read": "*"}, "invalid regular expression '*'"),
        ({**RIGHTS, "read": 1}, "read must be a text"),
    ],
)
def test_rights_that_make_no_sense_are_refused(
    body: object, reason: str, managed: Managed, user: str
) -> None:
    reply = managed.admin.put(f"/api/permissions/{managed.vhost}/{user}", body)
    assert reply.status == 400
    assert reply.reason.startswith(reason)


def test_rights_of_nobody_are_refused(managed: Managed) -> None:
    reply = managed.admin.put(f"/api/permissions/{managed.vhost}/nobody", RIGHTS)
    assert (reply.status, reply.reason) == (400, "vhost_or_user_not_found")


def test_topic_permissions_come_and_go(managed: Managed, user: str) -> None:
    path = f"/api/topic-permissions/{managed.vhost}/{user}"
    body = {"exchange": "amq.topic", "write": "^a", "read": ".*"}
    rights = {"user": user, "vhost": managed.vhost, **body}
    assert managed.admin.put(path, body).status == 201
    assert managed.admin.put(path, body).status == 204
    assert managed.admin.get(path) == [rights]
    assert managed.admin.get(path + "/amq.topic") == [rights]
    assert managed.admin.get(f"/api/users/{user}/topic-permissions") == [rights]
    assert managed.admin.get(f"/api/vhosts/{managed.vhost}/topic-permissions") == [
        rights
    ]
    assert managed.admin.put(path, {**body, "write": "("}).status == 400
    assert managed.admin.delete(path + "/amq.topic").status == 204
    assert managed.admin.delete(path).status == 404


def test_a_deleted_user_is_turned_out(managed: Managed, user: str) -> None:
    with managed.client(user, "p") as client:
        managed.admin.delete(f"/api/users/{user}")
        closed = client.expect_close(0)
    assert closed == connection_closed(
        320, f"CONNECTION_FORCED - user '{user}' is deleted"
    )


def test_a_virtual_host_is_made_changed_and_shown(managed: Managed) -> None:
    name = f"{managed.vhost}%2Fx"
    made = managed.admin.put(f"/api/vhosts/{name}", {"description": "d", "tags": "a,b"})
    changed = managed.admin.put(f"/api/vhosts/{name}", {"tracing": "true"})
    shown = managed.admin.get(f"/api/vhosts/{name}")
    refused = managed.admin.put(f"/api/vhosts/{name}", {"tracing": "x"})
    rights = managed.admin.get(f"/api/vhosts/{name}/permissions")
    managed.admin.delete(f"/api/vhosts/{name}")
    assert (made.status, changed.status) == (201, 204)
    assert refused.reason == ["not_boolean", "x"]
    told = {key: shown[key] for key in ("name", "description", "tags", "tracing")}
    assert told == {
        "name": f"{managed.vhost}/x",
        "description": "d",
        "tags": ["a", "b"],
        "tracing": True,
    }
    # Who creates it may do everything in it.
    assert [one["user"] for one in rights] == ["guest"]


def test_a_virtual_host_goes_with_its_connections_queues_and_rights(
    managed: Managed,
) -> None:
    name = managed.vhost
    with managed.client() as client:
        declare = commands.Queue.Declare(0, "q", durable=True)
        client.call(1, declare, commands.Queue.DeclareOk)
        gone = managed.admin.delete(f"/api/vhosts/{name}")
        closed = client.expect_close(0)
    assert gone.status == 204
    assert closed == connection_closed(
        320, f"CONNECTION_FORCED - vhost '{name}' is deleted"
    )
    managed.admin.put(f"/api/vhosts/{name}")
    assert managed.admin.get(f"/api/queues/{name}") == []


def test_a_protected_virtual_host_is_not_deleted(managed: Managed) -> None:
    path = f"/api/vhosts/{managed.vhost}"
    managed.admin.post(path + "/deletion/protection")
    refused = managed.admin.delete(path)
    managed.admin.delete(path + "/deletion/protection")
    assert refused.status == 412
    assert managed.admin.delete(path).status == 204
