"""Who may call what: every endpoint of the management API, as somebody who may not.

The table below says for each endpoint what it takes. An endpoint without its row here
fails the first test, so none comes into being without anybody having thought of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from amqpd.http.endpoint import Need
from amqpd.http.routes import ENDPOINTS
from amqpd.testing import AmqpdServer
from tests.support.http_client import HttpClient, Reply

OPEN: Final = Need.NOTHING
USER: Final = Need.MANAGEMENT
OWNER: Final = Need.OWNER
VHOST: Final = Need.VHOST
VISIBLE: Final = Need.VHOST_VISIBLE
POLICY: Final = Need.POLICYMAKER
MONITOR: Final = Need.MONITORING
ADMIN: Final = Need.ADMINISTRATOR

#: Endpoint -> what it takes.
ROWS: Final[dict[str, Need]] = {
    "DELETE /api/global-parameters/{name}": POLICY,
    "DELETE /api/operator-policies/{vhost}/{name}": ADMIN,
    "DELETE /api/parameters/{component}/{vhost}/{name}": POLICY,
    "DELETE /api/policies/{vhost}/{name}": POLICY,
    "DELETE /api/user-limits/{user}/{name}": ADMIN,
    "DELETE /api/vhost-limits/{vhost}/{name}": ADMIN,
    "DELETE /api/vhosts/{vhost}/deletion/protection": ADMIN,
    "GET /api/all-configuration": ADMIN,
    "GET /api/definitions": ADMIN,
    "GET /api/definitions/{vhost}": ADMIN,
    "GET /api/global-parameters": POLICY,
    "GET /api/global-parameters/{name}": POLICY,
    "GET /api/operator-policies": USER,
    "GET /api/operator-policies/{vhost}": VHOST,
    "GET /api/operator-policies/{vhost}/{name}": ADMIN,
    "GET /api/parameters": POLICY,
    "GET /api/parameters/{component}": POLICY,
    "GET /api/parameters/{component}/{vhost}": POLICY,
    "GET /api/parameters/{component}/{vhost}/{name}": POLICY,
    "GET /api/policies": USER,
    "GET /api/policies/{vhost}": VHOST,
    "GET /api/policies/{vhost}/{name}": POLICY,
    "GET /api/user-limits": USER,
    "GET /api/user-limits/{user}": USER,
    "GET /api/vhost-limits": USER,
    "GET /api/vhost-limits/{vhost}": VISIBLE,
    "POST /api/all-configuration": ADMIN,
    "POST /api/definitions": ADMIN,
    "POST /api/definitions/{vhost}": ADMIN,
    "POST /api/vhosts/{vhost}/deletion/protection": ADMIN,
    "PUT /api/global-parameters/{name}": POLICY,
    "PUT /api/operator-policies/{vhost}/{name}": ADMIN,
    "PUT /api/parameters/{component}/{vhost}/{name}": POLICY,
    "PUT /api/policies/{vhost}/{name}": POLICY,
    "PUT /api/user-limits/{user}/{name}": ADMIN,
    "PUT /api/vhost-limits/{vhost}/{name}": ADMIN,
    "GET /api/whoami": USER,
}

#: Each has one tag and the password "secret", and all rights in "own", none elsewhere.
TAGS: Final = ("administrator", "monitoring", "policymaker", "management", "none")

#: Who is refused although all is well with the virtual host.
REFUSED: Final[dict[Need, set[str]]] = {
    OPEN: set(),
    USER: {"none"},
    OWNER: {"none"},
    VHOST: {"none"},
    VISIBLE: {"none"},
    POLICY: {"none", "management", "monitoring"},
    MONITOR: {"none", "management", "policymaker"},
    ADMIN: {"none", "management", "policymaker", "monitoring"},
}
#: Who is refused as well when it is about a virtual host without rights for them.
REFUSED_ELSEWHERE: Final[dict[Need, set[str]]] = {
    VHOST: {"monitoring", "policymaker", "management"},
    VISIBLE: {"policymaker", "management"},
    POLICY: {"policymaker"},
}


def definitions() -> dict[str, object]:
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    return {
        "users": [{"name": tag, "password": "secret", "tags": [tag]} for tag in TAGS],
        "vhosts": [{"name": "own"}, {"name": "foreign"}],
        "permissions": [{"user": tag, "vhost": "own", **rights} for tag in TAGS],
    }


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with AmqpdServer(http=True, definitions=definitions()) as server:
        yield server.http_port


def path_of(template: str, vhost: str) -> str:
    """A path in which everything but the virtual host is not there."""
    parts = []
    for part in template.split("/"):
        if part == "{vhost}":
            part = vhost
        elif part == "{destination_kind}":
            part = "q"
        elif part.startswith("{"):
            part = "absent"
        parts.append(part)
    return "/".join(parts)


def call(port: int, row: str, vhost: str, user: str) -> Reply:
    method, _, template = row.partition(" ")
    with HttpClient(port, user, "secret" if user else "") as client:
        return client.call(method, path_of(template, vhost), {})


def test_every_endpoint_has_its_row() -> None:
    assert {f"{one.method} {one.path}": one.need for one in ENDPOINTS} == ROWS


@pytest.mark.parametrize("row", ROWS)
def test_without_a_login_it_is_refused(row: str, port: int) -> None:
    reply = call(port, row, "own", "")
    assert (reply.status == 401) == (ROWS[row] is not OPEN)


@pytest.mark.parametrize("row", ROWS)
def test_with_a_wrong_tag_it_is_refused(row: str, port: int) -> None:
    refused = {tag for tag in TAGS if call(port, row, "own", tag).status == 401}
    assert refused == REFUSED[ROWS[row]]


@pytest.mark.parametrize("row", [row for row in ROWS if "{vhost}" in row])
def test_on_a_foreign_virtual_host_it_is_refused(row: str, port: int) -> None:
    refused = {tag for tag in TAGS if call(port, row, "foreign", tag).status == 401}
    need = ROWS[row]
    assert refused == REFUSED[need] | REFUSED_ELSEWHERE.get(need, set())


@pytest.mark.parametrize("row", ROWS)
def test_no_call_without_content_is_an_internal_error(row: str, port: int) -> None:
    assert call(port, row, "own", "administrator").status < 500
