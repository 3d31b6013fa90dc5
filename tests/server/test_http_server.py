"""The HTTP server itself: what it takes, what it cuts short, what it logs."""

from __future__ import annotations

import base64
import socket

import pytest

from amqpd.testing import AmqpdServer, ServerFailed
from tests.server.conftest import Managed
from tests.support.http_client import HttpClient
from tests.support.waiting import eventually

LOGIN = base64.b64encode(b"guest:guest").decode()


def test_a_path_that_leads_nowhere_is_told_to_anybody(managed: Managed) -> None:
    with HttpClient(managed.server.http_port) as nobody:
        for path in ("/", "/api", "/api/nothing", "/api/queues/a/b/c/d"):
            reply = nobody.call("GET", path)
            assert (reply.status, reply.json) == (
                404,
                {"error": "Object Not Found", "reason": "Not Found"},
            )


def test_a_wrong_verb_is_told_which_there_are(managed: Managed) -> None:
    reply = managed.admin.call("POST", "/api/overview")
    assert (reply.status, reply.body) == (405, b"")
    assert reply.headers["Allow"] == "GET, HEAD, OPTIONS"


def test_options_and_head_are_answered(managed: Managed) -> None:
    with HttpClient(managed.server.http_port) as nobody:
        options = nobody.call("OPTIONS", "/api/queues")
    head = managed.admin.call("HEAD", "/api/whoami")
    get = managed.admin.call("GET", "/api/whoami")
    assert (options.status, options.headers["Allow"]) == (200, "GET, HEAD, OPTIONS")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Length"] == str(len(get.body))


def test_without_a_login_there_is_no_body(managed: Managed) -> None:
    with HttpClient(managed.server.http_port) as nobody:
        reply = nobody.call("GET", "/api/whoami")
    assert (reply.status, reply.body) == (401, b"")
    assert reply.headers["WWW-Authenticate"] == 'Basic realm="RabbitMQ Management"'


@pytest.mark.parametrize(
    "header", ["Basic !", "Bearer abc", "Basic", f"basic {LOGIN}x", "Basic 4pyT"]
)
def test_a_login_that_is_none_is_refused(header: str, managed: Managed) -> None:
    with HttpClient(managed.server.http_port) as nobody:
        reply = nobody.call("GET", "/api/whoami", headers={"Authorization": header})
    assert reply.status == 401


def test_a_slash_in_a_name_is_no_slash_in_the_path(managed: Managed) -> None:
    assert managed.admin.get("/api/vhosts/%2F")["name"] == "/"
    assert managed.admin.get("/api/vhosts/%2f")["name"] == "/"
    managed.admin.put(f"/api/queues/{managed.vhost}/a%2Fb%20%C3%BC%25")
    found = managed.admin.get(f"/api/queues/{managed.vhost}")
    assert [one["name"] for one in found] == ["a/b ü%"]
    assert managed.admin.get(f"/api/queues/{managed.vhost}/") == found


def test_a_look_whether_somebody_is_there_is_no_warning(managed: Managed) -> None:
    before = len(managed.server.log)
    for port in (managed.server.http_port, managed.server.port):
        with socket.create_connection(("127.0.0.1", port), 5):
            pass
    with HttpClient(managed.server.http_port) as nobody:
        assert nobody.get("/api/health/checks/is-in-service") == {"status": "ok"}
    log = managed.server.log[before:]
    assert "[warning]" not in log
    assert "[error]" not in log


def test_what_is_no_http_is_not_an_error_of_ours(managed: Managed) -> None:
    before = len(managed.server.log)
    address = ("127.0.0.1", managed.server.http_port)
    with socket.create_connection(address, 5) as stranger:
        stranger.sendall(b"AMQP\x00\x00\x09\x01\r\n\r\n")
        answer = stranger.recv(1000)
    assert answer.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
    assert "[error]" not in managed.server.log[before:]


def test_a_failed_login_is_logged_with_the_name(managed: Managed) -> None:
    with HttpClient(managed.server.http_port, "mallory", "x") as client:
        client.call("GET", "/api/whoami")
    line = "HTTP access denied: user 'mallory' - invalid credentials"
    eventually(lambda: line in managed.server.log)


def test_a_port_that_is_taken_ends_with_69() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        starting = AmqpdServer(env={"AMQPD_HTTP_PORT": str(port)})
        with pytest.raises(ServerFailed) as caught:
            starting.start()
        assert caught.value.exit_code == 69
        assert f"cannot listen on 127.0.0.1 port {port}" in starting.log
        assert "--http-port" in starting.log
        starting.close()


def test_a_client_that_goes_away_leaves_the_change_made(managed: Managed) -> None:
    path = f"/api/queues/{managed.vhost}/q"
    request = (
        f"PUT {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {LOGIN}\r\n"
        'Content-Length: 17\r\n\r\n{"durable": true}'
    )
    address = ("127.0.0.1", managed.server.http_port)
    with socket.create_connection(address, 5) as client:
        client.sendall(request.encode())
    eventually(lambda: managed.admin.call("GET", path).status == 200)
