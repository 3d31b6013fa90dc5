"""From a path to the row that is meant."""

import pytest

from amqpd.http.answer import NO_CONTENT, Answer
from amqpd.http.call import Call
from amqpd.http.endpoint import Endpoint, Need
from amqpd.http.errors import MethodNotAllowed, ObjectNotFound
from amqpd.http.path_table import PathTable


async def nothing(call: Call) -> Answer:
    return NO_CONTENT


def row(method: str, path: str) -> Endpoint:
    return Endpoint(method, path, Need.NOTHING, nothing)


TABLE = PathTable(
    [
        row("GET", "/api/users"),
        row("GET", "/api/users/{user}"),
        row("PUT", "/api/users/{user}"),
        row("POST", "/api/users/bulk"),
        row("GET", "/api/users/{name}/limits/{limit}"),
        row("GET", "/api/users/bulk/all"),
    ]
)


@pytest.mark.parametrize(
    ("method", "path", "found", "names"),
    [
        ("GET", "/api/users", "/api/users", {}),
        ("GET", "/api/users/", "/api/users", {}),
        ("HEAD", "/api/users", "/api/users", {}),
        ("GET", "/api/users/a", "/api/users/{user}", {"user": "a"}),
        ("PUT", "/api/users/a%2Fb", "/api/users/{user}", {"user": "a/b"}),
        ("PUT", "/api/users/%FF", "/api/users/{user}", {"user": "\udcff"}),
        ("PUT", "/api/users/a+b%20c", "/api/users/{user}", {"user": "a+b c"}),
        ("POST", "/api/users/bulk", "/api/users/bulk", {}),
        (
            "GET",
            "/api/users/bulk/limits/x",
            "/api/users/{name}/limits/{limit}",
            {"name": "bulk", "limit": "x"},
        ),
    ],
)
def test_a_path_is_found(
    method: str, path: str, found: str, names: dict[str, str]
) -> None:
    result = TABLE.find(method, path)
    assert (result.endpoint.path, result.names) == (found, names)


@pytest.mark.parametrize(
    "path", ["/", "/api", "/users", "/api/users/a/b", "/api//a", "/api/users/a/limits"]
)
def test_another_path_is_not_found(path: str) -> None:
    with pytest.raises(ObjectNotFound):
        TABLE.find("GET", path)


def test_another_method_is_told_which_there_are() -> None:
    with pytest.raises(MethodNotAllowed) as refused:
        TABLE.find("DELETE", "/api/users/a")
    assert refused.value.headers == {"Allow": "GET, HEAD, OPTIONS, PUT"}
    assert TABLE.allowed("/api/users/bulk") == "OPTIONS, POST"


def test_a_row_may_be_there_once() -> None:
    with pytest.raises(AssertionError):
        PathTable([row("GET", "/a/{b}"), row("GET", "/a/{c}")])
