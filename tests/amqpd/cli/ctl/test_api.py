"""Requests to the HTTP API, and what is said when they fail; a scripted server."""

from __future__ import annotations

import json
import socket
import threading
from base64 import b64decode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from amqpd.cli.ctl.api import CHUNK_SIZE, Api
from amqpd.cli.ctl.errors import Failure, Refused, Unreachable


class Scripted(ThreadingHTTPServer):
    """Answers every request with `status` and `body`, and remembers it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = 200
        self.body = b"{}"
        self.hangs_up = False
        self.seen: list[tuple[str, str, bytes]] = []
        self.headers: dict[str, str] = {}

    @property
    def url(self) -> str:
        return f"http://guest:guest@127.0.0.1:{self.server_port}"

    def refuse(self, status: int, reason: str) -> None:
        self.status = status
        self.body = json.dumps({"error": "e", "reason": reason}).encode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        assert isinstance(self.server, Scripted)
        size = int(self.headers.get("Content-Length", 0))
        received = self.rfile.read(size)
        self.server.seen.append((self.command, self.path, received))
        self.server.headers = dict(self.headers)
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)
        # Without a word: the client finds out with its next request.
        self.close_connection = self.server.hangs_up

    do_GET = do_PUT = do_POST = do_DELETE = answer  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def server() -> Iterator[Scripted]:
    running = Scripted()
    thread = threading.Thread(target=running.serve_forever, args=(0.01,))
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


def failure_of(server: Scripted, *names: str) -> Refused:
    with pytest.raises(Refused) as caught, Api(server.url, 5) as api:
        api.get(*names)
    return caught.value


def test_a_name_is_one_segment_of_the_path_whatever_is_in_it(server: Scripted) -> None:
    with Api(server.url, 5) as api:
        api.get("queues", "/", "a/b c?", query={"columns": "name,a.b"})
    path = "/api/queues/%2F/a%2Fb%20c%3F?columns=name%2Ca.b"
    assert server.seen == [("GET", path, b"")]


def test_a_name_may_have_octets_that_are_no_text(server: Scripted) -> None:
    with Api(server.url, 5) as api:
        api.get("queues", "v", "\udcff")
    assert server.seen[0][1] == "/api/queues/v/%FF"


def test_who_asks_is_in_the_url_and_may_have_any_letters(server: Scripted) -> None:
    url = server.url.replace("guest:guest", "j%40ne:p%3Ass%2F%C3%A9")
    with Api(url, 5) as api:
        api.get("whoami")
    scheme, _, token = server.headers["Authorization"].partition(" ")
    assert scheme == "Basic"
    assert b64decode(token).decode() == "j@ne:p:ss/é"


def test_the_password_is_in_no_message(server: Scripted) -> None:
    server.refuse(500, "boom")
    url = server.url.replace("guest:guest", "jane:hidden")
    with pytest.raises(Refused) as caught, Api(url, 5) as api:
        api.get("whoami")
    assert "hidden" not in str(caught.value)
    assert f"127.0.0.1:{server.server_port}/api/whoami" in str(caught.value)


def test_a_prefix_of_the_path_is_kept(server: Scripted) -> None:
    with Api(server.url + "/broker/", 5) as api:
        api.get("whoami")
    assert server.seen[0][1] == "/broker/api/whoami"


def test_a_body_goes_out_as_json(server: Scripted) -> None:
    with Api(server.url, 5) as api:
        api.put("vhosts", "v", body={"tracing": True})
    assert server.seen == [("PUT", "/api/vhosts/v", b'{"tracing": true}')]
    assert server.headers["Content-Type"] == "application/json"


def test_an_upload_is_sent_whole_and_its_progress_told(server: Scripted) -> None:
    told: list[int] = []
    data = b"x" * (2 * CHUNK_SIZE + 1)
    with Api(server.url, 5) as api:
        api.upload("definitions", data=data, on_bytes=told.append)
    assert server.seen == [("POST", "/api/definitions", data)]
    assert told == [CHUNK_SIZE, CHUNK_SIZE, 1]


def test_an_answer_without_a_body_is_none(server: Scripted) -> None:
    server.body = b""
    with Api(server.url, 5) as api:
        assert api.get("x") is None


def test_requests_share_a_connection_and_outlive_one_that_was_closed(
    server: Scripted,
) -> None:
    server.hangs_up = True
    with Api(server.url, 5) as api:
        api.get("one")
        api.get("two")
    assert [path for _, path, _ in server.seen] == ["/api/one", "/api/two"]


@pytest.mark.parametrize("status", [404, 405, 406])
def test_what_is_missing_is_what_the_verb_says(server: Scripted, status: int) -> None:
    server.refuse(status, "Not Found")
    missing = Failure("no queue 'q'")
    with pytest.raises(Failure) as caught, Api(server.url, 5) as api:
        api.get("queues", "/", "q", missing=missing)
    assert caught.value is missing


def test_a_bad_request_is_told_in_the_brokers_words(server: Scripted) -> None:
    server.refuse(400, "Validation failed\n\n[&lt;&lt;&quot;a&quot;&gt;&gt;]\n")
    error = failure_of(server, "policies")
    assert str(error) == 'Validation failed\n\n[<<"a">>]'
    assert error.exit_code == 69


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        ("Login failed", "--url or AMQPCTL_URL says who asks"),
        ("Not administrator user", "set_user_tags guest administrator"),
        ("User not authorised to access object", "set_user_tags guest"),
        ("User not authorised to access virtual host", "set_permissions -p VHOST"),
        ("Access refused.", "set_permissions -p VHOST guest '.*' '.*' '.*'"),
    ],
)
def test_who_is_refused_is_told_what_would_help(
    server: Scripted, reason: str, hint: str
) -> None:
    server.refuse(401, reason)
    error = failure_of(server, "users")
    assert f'user "guest" is refused: {reason}' in str(error)
    assert hint in error.hint
    assert error.exit_code == 69


@pytest.mark.parametrize(
    ("status", "exit_code"), [(404, 69), (413, 65), (500, 70), (503, 69)]
)
def test_each_kind_of_refusal_has_its_exit_code(
    server: Scripted, status: int, exit_code: int
) -> None:
    server.refuse(status, "because")
    assert failure_of(server, "x").exit_code == exit_code


def test_a_refusal_that_is_no_json_is_shown_as_it_is(server: Scripted) -> None:
    server.status, server.body = 502, b"<h1>Bad Gateway</h1>"
    assert "502 <h1>Bad Gateway</h1>" in str(failure_of(server, "x"))


def test_an_answer_that_is_no_json_is_a_failure(server: Scripted) -> None:
    server.body = b"<html>hello</html>"
    with (
        pytest.raises(Failure, match="does not answer in JSON"),
        Api(server.url, 5) as api,
    ):
        api.get("x")


def test_where_nobody_listens_the_url_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with (
        pytest.raises(Unreachable) as caught,
        Api(f"http://127.0.0.1:{port}", 5) as api,
    ):
        api.get("x")
    text = f"cannot reach http://127.0.0.1:{port}: Connection refused"
    assert str(caught.value) == text
    assert "AMQPCTL_URL" in caught.value.hint
    assert caught.value.exit_code == 69


def test_who_does_not_answer_in_time_is_a_temporary_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with (
            pytest.raises(Unreachable) as caught,
            Api(f"http://127.0.0.1:{port}", 0.05) as api,
        ):
            api.get("x")
    assert "did not answer within 0.05 s" in str(caught.value)
    assert caught.value.exit_code == 75


@pytest.mark.parametrize("url", ["ftp://host", "http://host:port", "http://host:0"])
def test_what_is_no_url_of_an_api_is_refused(url: str) -> None:
    with pytest.raises(Failure) as caught:
        Api(url, 5)
    assert caught.value.exit_code == 64


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("broker:1567", "http://broker:1567"),
        ("broker", "http://broker:15672"),
        ("https://broker", "https://broker:15671"),
        ("http://[::1]:15672/", "http://[::1]:15672"),
        ("http://a:b@broker/prefix/", "http://broker:15672/prefix"),
    ],
)
def test_what_a_url_leaves_out_has_a_default(url: str, place: str) -> None:
    assert Api(url, 5).place == place


def test_another_user_asks_at_the_same_place(server: Scripted) -> None:
    with Api(server.url, 5).as_user("jane", "pw") as other:
        other.get("whoami")
    token = server.headers["Authorization"].partition(" ")[2]
    assert b64decode(token) == b"jane:pw"
