"""Where the management API of another broker says more than ours, or something else.

    python -m tests.conformance.http_compare http://guest:guest@host:15672 amqp://...

The same things are set up on our broker and on the peer, in a virtual host of their
own, and the same requests are made: good ones, of which the names of fields are
compared, and bad ones, of which it is the status that counts. Values are not compared;
that is what the tests of `tests/server` do.

What the peer has and ours lacks needs a row in `http_fields.toml`, whose reason is
printed; what has none is NOT EXPLAINED, and the exit code is 1. What ours has beyond
that is not told: the peer is of an older version.
"""

from __future__ import annotations

import argparse
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from textwrap import fill
from typing import Any, Final
from urllib.parse import quote, urlsplit

from pamqp import commands

from amqpd.testing import AmqpdServer
from tests.conformance.compare import NOT_EXPLAINED
from tests.support.http_client import HttpClient, Reply
from tests.support.raw_client import Endpoint, RawClient
from tests.support.waiting import eventually

TABLE: Final = Path(__file__).with_name("http_fields.toml")
#: The virtual host, the user and all that is set up.
NAME: Final = "http-conformance"
#: The names in it are those of users and nodes.
OPAQUE: Final = frozenset(
    {
        "arguments",
        "client_properties",
        "cluster_state",
        "definition",
        "effective_policy_definition",
    }
)
WIDTH: Final = 100
IN: Final = "    "
JSON: Final = {"Content-Type": "application/json"}
#: The peer's statistics take seconds to know a new connection.
ASKED_EVERY_S: Final = 0.2
#: Lists, and what they say last of what is new.
KNOWN: Final = {
    f"/api/vhosts/{NAME}/connections": "name",
    f"/api/vhosts/{NAME}/channels": "name",
    f"/api/queues/{NAME}": "messages_ram",
}

_HERE: Final = f"/api/vhosts/{NAME}"
#: `{connection}`, `{channel}` and `{node}` are what they are called over there.
REQUESTS: Final = (
    "GET /api/overview",
    "GET /api/whoami",
    "GET /api/cluster-name",
    "GET /api/extensions",
    "GET /api/nodes",
    "GET /api/nodes/{node}",
    f"GET /api/vhosts?name={NAME}&page=1",
    f"GET {_HERE}",
    f"GET {_HERE}/permissions",
    f"GET {_HERE}/topic-permissions",
    "GET /api/users",
    f"GET /api/users/{NAME}",
    "GET /api/users/without-permissions",
    f"GET /api/users/{NAME}/permissions",
    f"GET /api/users/{NAME}/topic-permissions",
    "GET /api/permissions",
    f"GET /api/permissions/{NAME}/{NAME}",
    "GET /api/topic-permissions",
    f"GET /api/queues/{NAME}",
    f"GET /api/queues/{NAME}?page=1&page_size=10",
    f"GET /api/queues/{NAME}?columns=name,arguments",
    f"GET /api/queues/{NAME}/q",
    f"GET /api/queues/{NAME}/q/bindings",
    f"GET /api/exchanges/{NAME}",
    f"GET /api/exchanges/{NAME}/x",
    f"GET /api/exchanges/{NAME}/x/bindings/source",
    f"GET /api/exchanges/{NAME}/x/bindings/destination",
    f"GET /api/bindings/{NAME}",
    f"GET /api/bindings/{NAME}/e/x/q/q",
    f"GET /api/bindings/{NAME}/e/x/q/q/k",
    f"GET {_HERE}/connections",
    f"GET {_HERE}/channels",
    "GET /api/connections/{connection}",
    "GET /api/connections/{connection}/channels",
    "GET /api/channels/{channel}",
    f"GET /api/consumers/{NAME}",
    f"GET /api/policies/{NAME}",
    f"GET /api/policies/{NAME}/p",
    f"GET /api/operator-policies/{NAME}",
    f"GET /api/operator-policies/{NAME}/o",
    f"GET /api/parameters/vhost-limits/{NAME}",
    f"GET /api/parameters/vhost-limits/{NAME}/limits",
    "GET /api/global-parameters",
    f"GET /api/vhost-limits/{NAME}",
    f"GET /api/user-limits/{NAME}",
    "GET /api/definitions",
    f"GET /api/definitions/{NAME}",
    f"GET /api/aliveness-test/{NAME}",
    "GET /api/health/checks/alarms",
    "GET /api/health/checks/local-alarms",
    "GET /api/health/checks/virtual-hosts",
    "GET /api/health/checks/node-is-quorum-critical",
    "GET /api/health/checks/port-listener/1",
    "GET /api/health/checks/protocol-listener/nothing",
    # -- what is not there, or makes no sense
    "GET /api/nothing",
    "POST /api/overview",
    "GET /api/queues/nowhere",
    f"GET /api/queues/{NAME}/nothing",
    f"GET /api/exchanges/{NAME}/nothing",
    f"GET /api/bindings/{NAME}/e/x/q/nothing",
    f"GET /api/bindings/{NAME}/e/x/q/q/nothing",
    "GET /api/connections/nothing",
    "GET /api/channels/nothing",
    "GET /api/nodes/nothing",
    "GET /api/users/nothing",
    f"GET /api/permissions/{NAME}/nothing",
    f"GET /api/policies/{NAME}/nothing",
    f"GET /api/parameters/nothing/{NAME}",
    f"GET /api/parameters/nothing/{NAME}/nothing",
    "GET /api/global-parameters/nothing",
    f"GET /api/queues/{NAME}?page=9",
    f"GET /api/queues/{NAME}?page=0",
    f"GET /api/queues/{NAME}?page=x",
    f"GET /api/queues/{NAME}?page=1&page_size=501",
    f"PUT /api/queues/{NAME}/{'q' * 256}",
    f"PUT /api/exchanges/{NAME}/amq.own",
    f"PUT /api/policies/{NAME}/nothing",
    f"PUT /api/parameters/nothing/{NAME}/nothing",
    f"PUT /api/vhost-limits/{NAME}/nothing",
    "PUT /api/users/nothing",
    f"PUT /api/permissions/{NAME}/nothing",
    f"POST /api/queues/{NAME}/q/get",
    f"POST /api/exchanges/{NAME}/x/publish",
    f"DELETE /api/queues/{NAME}/nothing",
    "DELETE /api/users/nothing",
)
#: Asked by the user who is set up, who has no more than the tag management.
AS_USER: Final = (
    "GET /api/whoami",
    "GET /api/overview",
    "GET /api/vhosts",
    "GET /api/queues",
    "GET /api/connections",
    "GET /api/nodes",
    "GET /api/users",
    "GET /api/definitions",
    "GET /api/permissions",
    "GET /api/queues/%2F",
    f"GET /api/policies/{NAME}",
    f"GET /api/policies/{NAME}/p",
    f"GET /api/operator-policies/{NAME}/o",
    f"GET /api/parameters/vhost-limits/{NAME}",
    f"GET /api/user-limits/{NAME}",
    "GET /api/connections/{connection}",
    f"PUT /api/vhosts/{NAME}",
    f"DELETE /api/queues/{NAME}/q",
)


@dataclass(frozen=True)
class Shape:
    """What of an answer is compared."""

    status: int
    fields: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Lack:
    """Something that one request of the peer has, and ours has not."""

    request: str
    what: str
    reason: str


Shapes = Mapping[str, Shape]
Rows = Sequence[Mapping[str, Any]]


def shape_of(reply: Reply) -> Shape:
    """Return what of an answer is compared."""
    if not reply.body:
        return Shape(reply.status)
    return Shape(reply.status, frozenset(fields_in(reply.json)))


def fields_in(content: object, before: str = "") -> Iterator[str]:
    """Yield the names of fields, `outer.inner`; a list has those of its items."""
    if isinstance(content, list):
        for item in content:
            yield from fields_in(item, before)
    elif isinstance(content, dict):
        for name, value in content.items():
            yield before + name
            if name not in OPAQUE:
                yield from fields_in(value, f"{before}{name}.")


def lacks(ours: Shapes, peer: Shapes, rows: Rows) -> list[Lack]:
    """Return what the peer's answers have and ours have not, each with its reason."""
    found: list[Lack] = []
    for request, theirs in peer.items():
        own = ours[request]
        if own.status != theirs.status:
            what = f"status {theirs.status}, ours {own.status}: {request}"
            found.append(Lack(request, what, reason_of(request, "status", rows)))
            continue
        lacking = theirs.fields - own.fields
        found += [
            Lack(request, field, reason_of(request, field, rows))
            for field in sorted(lacking)
            # What is in something that lacks goes without saying.
            if field.rpartition(".")[0] not in lacking
        ]
    return found


def reason_of(request: str, field: str, rows: Rows) -> str:
    """Return the reason of the first row that names the field, for that request."""
    for row in rows:
        if not fnmatchcase(request, row.get("request", "*")):
            continue
        if any(fnmatchcase(field, pattern) for pattern in row["fields"]):
            return " ".join(str(row["reason"]).split())
    return NOT_EXPLAINED


def table(found: Sequence[Lack]) -> str:
    """Return what lacks as text: by reason; without one, with the requests."""
    of_reason: dict[str, list[str]] = {}
    for one in found:
        if one.reason != NOT_EXPLAINED:
            of_reason.setdefault(one.reason, []).append(one.what)
    lines: list[str] = []
    for reason, whats in of_reason.items():
        names = ", ".join(dict.fromkeys(whats))
        lines += [reason, fill(names, WIDTH, initial_indent=IN, subsequent_indent=IN)]
    for one in found:
        if one.reason == NOT_EXPLAINED:
            lines.append(f"{NOT_EXPLAINED}: {one.request}: {one.what}")
    return "\n".join(lines)


# -- asking ----------------------------------------------------------------------


def shapes(http_url: str, amqp_url: str) -> dict[str, Shape]:
    """Set up a broker, ask it everything, and leave it as it was."""
    url = urlsplit(http_url)
    assert url.port is not None, "the API's port must be said"
    host = url.hostname or "127.0.0.1"
    admin = HttpClient(url.port, url.username or "", url.password or "", host)
    user = HttpClient(url.port, NAME, NAME, host)
    with ExitStack() as stack:
        for client in (admin, user):
            stack.enter_context(client)
        stack.enter_context(_set_up(admin))
        stack.enter_context(_consumer(Endpoint.from_url(amqp_url)))
        names = _names(admin)
        found = {
            request: _ask(admin, request.format_map(names)) for request in REQUESTS
        }
        for request in AS_USER:
            found[f"{request} (user)"] = _ask(user, request.format_map(names))
    return found


def _ask(client: HttpClient, request: str) -> Shape:
    method, _, path = request.partition(" ")
    content: object = None if method == "GET" else {}
    try:
        return shape_of(client.call(method, path, content, JSON))
    finally:
        # RabbitMQ hangs up after a hundred requests, and does not say so before.
        client.close()


@contextmanager
def _set_up(admin: HttpClient) -> Iterator[None]:
    user = quote(admin.get("/api/whoami")["name"], safe="")
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    topic = {"exchange": "amq.topic", "write": ".*", "read": ".*"}
    policy = {"pattern": "^q$", "definition": {"max-length": 9}}
    binding = {"routing_key": "k", "arguments": {}}
    message = {"routing_key": "q", "properties": {}, "payload": "m"}
    try:
        for path, content in (
            (_HERE, {}),
            (f"/api/permissions/{NAME}/{user}", rights),
            (f"/api/users/{NAME}", {"password": NAME, "tags": "management"}),
            (f"/api/permissions/{NAME}/{NAME}", rights),
            (f"/api/topic-permissions/{NAME}/{NAME}", topic),
            (f"/api/queues/{NAME}/q", {"durable": True, "arguments": {"x-a": 1}}),
            (f"/api/exchanges/{NAME}/x", {"type": "topic", "durable": True}),
            (f"/api/policies/{NAME}/p", policy),
            (f"/api/operator-policies/{NAME}/o", policy),
            (f"/api/vhost-limits/{NAME}/max-queues", {"value": 100}),
            (f"/api/user-limits/{NAME}/max-channels", {"value": 100}),
            (f"/api/global-parameters/{NAME}", {"value": 1}),
        ):
            _make(admin, "PUT", path, content)
        for path, content in (
            (f"/api/bindings/{NAME}/e/x/q/q", binding),
            (
                f"/api/exchanges/{NAME}/amq.default/publish",
                {**message, "payload_encoding": "string"},
            ),
        ):
            _make(admin, "POST", path, content)
        yield
    finally:
        admin.delete(_HERE)
        admin.delete(f"/api/users/{NAME}")
        admin.delete(f"/api/global-parameters/{NAME}")


def _make(admin: HttpClient, method: str, path: str, content: object) -> None:
    reply = admin.call(method, path, content, JSON)
    if reply.status not in (200, 201, 204):
        raise SystemExit(f"{path}: {reply.status} {reply.body.decode()}")


@contextmanager
def _consumer(endpoint: Endpoint) -> Iterator[None]:
    """A connection with a channel that consumes, and a queue that is its own."""
    here = Endpoint(endpoint.host, endpoint.port, NAME, NAME, NAME)
    with RawClient(here) as client:
        client.open().open_channel()
        own = commands.Queue.Declare(0, "own", exclusive=True)
        client.call(1, own, commands.Queue.DeclareOk)
        consume = commands.Basic.Consume(0, "own", "tag")
        client.call(1, consume, commands.Basic.ConsumeOk)
        yield


def _names(admin: HttpClient) -> dict[str, str]:
    """Wait until the lists know everything, and return what is called how."""
    [node] = admin.get("/api/nodes")
    for path, field in KNOWN.items():

        def is_known(path: str = path, field: str = field) -> bool:
            time.sleep(ASKED_EVERY_S)
            listed = admin.get(path)
            admin.close()
            return bool(listed) and all(field in one for one in listed)

        eventually(is_known)
    [connection] = admin.get(f"{_HERE}/connections")
    [channel] = admin.get(f"{_HERE}/channels")
    return {
        "node": quote(node["name"], safe=""),
        "connection": quote(connection["name"], safe=""),
        "channel": quote(channel["name"], safe=""),
    }


def main() -> int:
    """Ask both, print what ours lacks, and say whether all of it is explained."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("peer", help="its API: http://user:password@host:15672")
    parser.add_argument("amqp", help="the same broker: amqp://user:password@host/")
    options = parser.parse_args()
    with AmqpdServer(http=True) as own:
        ours = shapes(own.http_url, own.url)
    peer = shapes(options.peer, options.amqp)
    found = lacks(ours, peer, tomllib.loads(TABLE.read_text())["lacks"])
    print(table(found))
    unexplained = [one for one in found if one.reason == NOT_EXPLAINED]
    print(
        f"{len(peer)} requests; {len(peer) - len({one.request for one in found})} are "
        f"answered alike, {len(unexplained)} differences are not explained"
    )
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
