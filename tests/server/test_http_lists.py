"""Lists of the API: sorted, paged, filtered, cut to columns."""

from __future__ import annotations

from typing import Any

import pytest
from pamqp import commands

from tests.server.conftest import Managed
from tests.support.http_client import HttpClient

NAMES = ["a1", "a2", "b1", "b2", "c1"]


@pytest.fixture
def queues(managed: Managed) -> str:
    """The path of five queues, of which b1 has two messages and a2 has one."""
    for name in reversed(NAMES):
        managed.admin.put(f"/api/queues/{managed.vhost}/{name}")
    for name in ("b1", "a2", "b1"):
        managed.admin.post(
            f"/api/exchanges/{managed.vhost}/amq.default/publish",
            {
                "routing_key": name,
                "properties": {},
                "payload": "m",
                "payload_encoding": "string",
            },
        )
    return f"/api/queues/{managed.vhost}"


def names_in(managed: Managed, path: str) -> list[str]:
    found = managed.admin.get(path)
    items = found["items"] if isinstance(found, dict) else found
    return [one["name"] for one in items]


def test_without_a_page_it_is_a_plain_array_by_name(
    managed: Managed, queues: str
) -> None:
    assert names_in(managed, queues) == NAMES
    # Nothing is filtered then, as in RabbitMQ.
    assert names_in(managed, queues + "?name=b") == NAMES


def test_a_page_says_where_it_is(managed: Managed, queues: str) -> None:
    page = managed.admin.get(queues + "?page=2&page_size=2&columns=name")
    assert page == {
        "items": [{"name": "b1"}, {"name": "b2"}],
        "page": 2,
        "page_size": 2,
        "page_count": 3,
        "item_count": 2,
        "filtered_count": 5,
        "total_count": 5,
    }


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("name=B", ["b1", "b2"]),
        ("name=^.2$", []),
        ("name=%5E.2%24&use_regex=true", ["a2", "b2"]),
        ("name=A&use_regex=true", ["a1", "a2"]),
        ("name=", NAMES),
    ],
)
def test_a_page_is_of_what_the_name_lets_through(
    query: str, expected: list[str], managed: Managed, queues: str
) -> None:
    page = managed.admin.get(f"{queues}?page=1&{query}")
    assert [one["name"] for one in page["items"]] == expected
    assert (page["filtered_count"], page["total_count"]) == (len(expected), 5)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("sort=messages", ["a1", "b2", "c1", "a2", "b1"]),
        ("sort=messages&sort_reverse=true", ["b1", "a2", "c1", "b2", "a1"]),
        ("sort_reverse=true", NAMES[::-1]),
        ("sort=name&sort_reverse=true&page=1&page_size=2", ["c1", "b2"]),
        ("sort=no.such.column", NAMES),
    ],
)
def test_a_list_is_sorted_by_what_is_asked_for(
    query: str, expected: list[str], managed: Managed, queues: str
) -> None:
    assert names_in(managed, f"{queues}?{query}") == expected


@pytest.mark.parametrize(
    ("query", "error", "reason"),
    [
        ("page=a", "bad_request", "Pagination parameters are invalid"),
        ("page=1&page_size=x", "bad_request", "Pagination parameters are invalid"),
        (
            "page=0",
            "invalid_pagination_parameters",
            "Invalid pagination parameters: page number 0, page size undefined",
        ),
        (
            "page=1&page_size=501",
            "invalid_pagination_parameters",
            "Invalid pagination parameters: page number 1, page size 501",
        ),
        (
            "page=9",
            "page_out_of_range",
            "Page out of range, page: 9 page size: 100, len: 5",
        ),
        (
            "page=1&use_regex=true&name=(a%2B)%2B",
            "bad_request",
            "the regular expression is too complex",
        ),
    ],
)
def test_a_page_that_cannot_be_is_refused(
    query: str, error: str, reason: str, managed: Managed, queues: str
) -> None:
    reply = managed.admin.call("GET", f"{queues}?{query}")
    assert (reply.status, reply.json) == (400, {"error": error, "reason": reason})


def test_columns_go_into_objects_and_lists(managed: Managed) -> None:
    with managed.client() as client:
        client.call(1, commands.Queue.Declare(0, "q"), commands.Queue.DeclareOk)
        client.call(1, commands.Basic.Consume(0, "q", "t"), commands.Basic.ConsumeOk)
        queue = managed.admin.get(
            f"/api/queues/{managed.vhost}/q"
            "?columns=name,consumer_details.queue.name,consumer_details.consumer_tag"
        )
    assert queue == {
        "name": "q",
        "consumer_details": [{"consumer_tag": "t", "queue": {"name": "q"}}],
    }


def test_a_cheap_list_has_totals_if_asked_for(managed: Managed, queues: str) -> None:
    def fields(query: str) -> set[str]:
        return set(managed.admin.get(f"{queues}?{query}")[0])

    cheap = fields("disable_stats=true")
    with_totals = fields("disable_stats=true&enable_queue_totals=true")
    everything = fields("")
    totals = {"messages", "messages_ready", "messages_unacknowledged"}
    assert with_totals - cheap == totals
    assert {"name", "vhost", "type", "durable", "arguments", "state"} <= cheap
    assert {"consumers", "policy", "messages_ram"} <= everything - with_totals


@pytest.mark.parametrize(
    "path",
    [
        "exchanges",
        "queues",
        "bindings",
        "connections",
        "channels",
        "consumers",
        "vhosts",
        "users",
        "permissions",
        "nodes",
    ],
)
def test_every_list_is_an_array_and_has_pages(path: str, managed: Managed) -> None:
    everything: Any = managed.admin.get(f"/api/{path}")
    page: Any = managed.admin.get(f"/api/{path}?page=1&page_size=500")
    assert isinstance(everything, list)
    assert set(page) == {
        "items",
        "page",
        "page_size",
        "page_count",
        "item_count",
        "filtered_count",
        "total_count",
    }


def test_lists_show_what_the_user_may_enter(managed: Managed, queues: str) -> None:
    managed.admin.put("/api/users/guest2", {"password": "p", "tags": "management"})
    try:
        with HttpClient(managed.server.http_port, "guest2", "p") as client:
            before = [client.get(f"/api/{kind}") for kind in ("queues", "vhosts")]
            rights = {"configure": "", "write": "", "read": ""}
            managed.admin.put(f"/api/permissions/{managed.vhost}/guest2", rights)
            after = [client.get(f"/api/{kind}") for kind in ("queues", "vhosts")]
    finally:
        managed.admin.delete("/api/users/guest2")
    assert before == [[], []]
    assert [one["name"] for one in after[0]] == NAMES
    assert [one["name"] for one in after[1]] == [managed.vhost]
