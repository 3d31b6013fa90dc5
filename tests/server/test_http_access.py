"""Who may call what: every endpoint of the management API, as somebody who may not.

The table below says for each endpoint what it takes. An endpoint without its row here
fails the first test, so none comes into being without anybody having thought of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

import pytest

from amqpd.http.endpoint import Need
from amqpd.http.routes import ENDPOINTS
from amqpd.testing import AmqpdServer
from tests.support.http_client import HttpClient
from tests.support.raw_client import Endpoint, RawClient

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
    "GET /metrics": MONITOR,
    "GET /api/aliveness-test/{vhost}": VHOST,
    "GET /api/all-configuration": ADMIN,
    "POST /api/all-configuration": ADMIN,
    "GET /api/auth": OPEN,
    "DELETE /api/auth/attempts/{node}": MONITOR,
    "GET /api/auth/attempts/{node}": MONITOR,
    "GET /api/auth/attempts/{node}/source": MONITOR,
    "GET /api/auth/hash_password/{password}": USER,
    "GET /api/bindings": USER,
    "GET /api/bindings/{vhost}": VHOST,
    "GET /api/bindings/{vhost}/e/{source}/{kind}/{destination}": VHOST,
    "POST /api/bindings/{vhost}/e/{source}/{kind}/{destination}": VHOST,
    "DELETE /api/bindings/{vhost}/e/{source}/{kind}/{destination}/{key}": VHOST,
    "GET /api/bindings/{vhost}/e/{source}/{kind}/{destination}/{key}": VHOST,
    "GET /api/channels": USER,
    "GET /api/channels/{channel}": OWNER,
    "GET /api/cluster-name": USER,
    "PUT /api/cluster-name": ADMIN,
    "GET /api/connections": USER,
    "DELETE /api/connections/username/{user}": OWNER,
    "GET /api/connections/username/{user}": OWNER,
    "DELETE /api/connections/{connection}": OWNER,
    "GET /api/connections/{connection}": OWNER,
    "GET /api/connections/{connection}/channels": OWNER,
    "GET /api/connections/{connection}/sessions": OWNER,
    "GET /api/consumers": USER,
    "GET /api/consumers/{vhost}": VHOST,
    "GET /api/definitions": ADMIN,
    "POST /api/definitions": ADMIN,
    "GET /api/definitions/{vhost}": ADMIN,
    "POST /api/definitions/{vhost}": ADMIN,
    "GET /api/deprecated-features": USER,
    "GET /api/deprecated-features/used": USER,
    "GET /api/exchanges": USER,
    "GET /api/exchanges/{vhost}": VHOST,
    "DELETE /api/exchanges/{vhost}/{exchange}": VHOST,
    "GET /api/exchanges/{vhost}/{exchange}": VHOST,
    "PUT /api/exchanges/{vhost}/{exchange}": VHOST,
    "GET /api/exchanges/{vhost}/{exchange}/bindings/destination": VHOST,
    "GET /api/exchanges/{vhost}/{exchange}/bindings/source": VHOST,
    "POST /api/exchanges/{vhost}/{exchange}/publish": VHOST,
    "GET /api/extensions": USER,
    "GET /api/feature-flags": ADMIN,
    "PUT /api/feature-flags/{name}/enable": ADMIN,
    "GET /api/global-parameters": POLICY,
    "DELETE /api/global-parameters/{name}": POLICY,
    "GET /api/global-parameters/{name}": POLICY,
    "PUT /api/global-parameters/{name}": POLICY,
    "GET /api/health/checks/alarms": USER,
    "GET /api/health/checks/below-node-connection-limit": OPEN,
    "GET /api/health/checks/certificate-expiration/{within}/{unit}": USER,
    "GET /api/health/checks/is-in-service": OPEN,
    "GET /api/health/checks/local-alarms": USER,
    "GET /api/health/checks/metadata-store/initialized": USER,
    "GET /api/health/checks/metadata-store/initialized/with-data": USER,
    "GET /api/health/checks/node-is-mirror-sync-critical": USER,
    "GET /api/health/checks/node-is-quorum-critical": USER,
    "GET /api/health/checks/port-listener/{port}": USER,
    "GET /api/health/checks/protocol-listener/{protocol}": USER,
    "GET /api/health/checks/quorum-queues-without-elected-leaders/all-vhosts": USER,
    "GET /api/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}": USER,
    "GET /api/health/checks/reached-target-cluster-size": OPEN,
    "GET /api/health/checks/ready-to-serve-clients": OPEN,
    "GET /api/health/checks/virtual-hosts": USER,
    "GET /api/healthchecks/node": USER,
    "GET /api/healthchecks/node/{node}": USER,
    "GET /api/nodes": MONITOR,
    "GET /api/nodes/{node}": MONITOR,
    "GET /api/nodes/{node}/memory": MONITOR,
    "GET /api/nodes/{node}/memory/relative": MONITOR,
    "GET /api/operator-policies": USER,
    "GET /api/operator-policies/{vhost}": VHOST,
    "DELETE /api/operator-policies/{vhost}/{name}": ADMIN,
    "GET /api/operator-policies/{vhost}/{name}": ADMIN,
    "PUT /api/operator-policies/{vhost}/{name}": ADMIN,
    "GET /api/overview": USER,
    "GET /api/parameters": POLICY,
    "GET /api/parameters/{component}": POLICY,
    "GET /api/parameters/{component}/{vhost}": POLICY,
    "DELETE /api/parameters/{component}/{vhost}/{name}": POLICY,
    "GET /api/parameters/{component}/{vhost}/{name}": POLICY,
    "PUT /api/parameters/{component}/{vhost}/{name}": POLICY,
    "GET /api/permissions": ADMIN,
    "DELETE /api/permissions/{vhost}/{user}": ADMIN,
    "GET /api/permissions/{vhost}/{user}": ADMIN,
    "PUT /api/permissions/{vhost}/{user}": ADMIN,
    "GET /api/policies": USER,
    "GET /api/policies/{vhost}": VHOST,
    "DELETE /api/policies/{vhost}/{name}": POLICY,
    "GET /api/policies/{vhost}/{name}": POLICY,
    "PUT /api/policies/{vhost}/{name}": POLICY,
    "GET /api/queues": USER,
    "GET /api/queues/detailed": USER,
    "GET /api/queues/{vhost}": VHOST,
    "DELETE /api/queues/{vhost}/{queue}": VHOST,
    "GET /api/queues/{vhost}/{queue}": VHOST,
    "PUT /api/queues/{vhost}/{queue}": VHOST,
    "POST /api/queues/{vhost}/{queue}/actions": ADMIN,
    "GET /api/queues/{vhost}/{queue}/bindings": VHOST,
    "DELETE /api/queues/{vhost}/{queue}/contents": VHOST,
    "POST /api/queues/{vhost}/{queue}/get": VHOST,
    "POST /api/rebalance/queues": ADMIN,
    "DELETE /api/reset": ADMIN,
    "DELETE /api/reset/{node}": ADMIN,
    "GET /api/topic-permissions": ADMIN,
    "DELETE /api/topic-permissions/{vhost}/{user}": ADMIN,
    "GET /api/topic-permissions/{vhost}/{user}": ADMIN,
    "PUT /api/topic-permissions/{vhost}/{user}": ADMIN,
    "DELETE /api/topic-permissions/{vhost}/{user}/{exchange}": ADMIN,
    "GET /api/topic-permissions/{vhost}/{user}/{exchange}": ADMIN,
    "GET /api/user-limits": USER,
    "GET /api/user-limits/{user}": USER,
    "DELETE /api/user-limits/{user}/{name}": ADMIN,
    "PUT /api/user-limits/{user}/{name}": ADMIN,
    "GET /api/users": ADMIN,
    "POST /api/users/bulk-delete": ADMIN,
    "GET /api/users/without-permissions": ADMIN,
    "DELETE /api/users/{user}": ADMIN,
    "GET /api/users/{user}": ADMIN,
    "PUT /api/users/{user}": ADMIN,
    "GET /api/users/{user}/permissions": ADMIN,
    "GET /api/users/{user}/topic-permissions": ADMIN,
    "GET /api/version": OPEN,
    "GET /api/vhost-limits": USER,
    "GET /api/vhost-limits/{vhost}": VISIBLE,
    "DELETE /api/vhost-limits/{vhost}/{name}": ADMIN,
    "PUT /api/vhost-limits/{vhost}/{name}": ADMIN,
    "GET /api/vhosts": USER,
    "DELETE /api/vhosts/{vhost}": ADMIN,
    "GET /api/vhosts/{vhost}": VISIBLE,
    "PUT /api/vhosts/{vhost}": ADMIN,
    "GET /api/vhosts/{vhost}/channels": VHOST,
    "GET /api/vhosts/{vhost}/connections": VHOST,
    "DELETE /api/vhosts/{vhost}/deletion/protection": ADMIN,
    "POST /api/vhosts/{vhost}/deletion/protection": ADMIN,
    "GET /api/vhosts/{vhost}/permissions": ADMIN,
    "POST /api/vhosts/{vhost}/start/{node}": ADMIN,
    "GET /api/vhosts/{vhost}/topic-permissions": ADMIN,
    "GET /api/whoami": USER,
    "PUT /api/amqpd/app": ADMIN,
    "PUT /api/amqpd/listeners": ADMIN,
    "PUT /api/amqpd/vm-memory-high-watermark": ADMIN,
    "PUT /api/amqpd/disk-free-limit": ADMIN,
    "PUT /api/amqpd/log-level": ADMIN,
    "GET /api/config/effective": ADMIN,
}

IN_VHOSTS: Final = [
    row for row, need in ROWS.items() if "{vhost}" in row and need is not ADMIN
]

#: Each has one tag and the password "secret", and all rights in "own", none elsewhere.
TAGS: Final = ("none", "management", "policymaker", "monitoring", "administrator")

#: Who is refused although all is well with the virtual host; owners have a test of
#: their own.
REFUSED: Final[dict[Need, set[str]]] = {
    OPEN: set(),
    USER: {"none"},
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
#: What a broker does not survive is not tried by who may.
ENDINGS: Final[set[str]] = set()


def definitions() -> dict[str, object]:
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    return {
        "users": [{"name": tag, "password": "secret", "tags": [tag]} for tag in TAGS],
        "vhosts": [{"name": "own"}, {"name": "foreign"}],
        "permissions": [{"user": tag, "vhost": "own", **rights} for tag in TAGS],
    }


@pytest.fixture(scope="module")
def server() -> Iterator[AmqpdServer]:
    with AmqpdServer(http=True, definitions=definitions()) as own:
        yield own


def path_of(template: str, names: dict[str, str]) -> str:
    """A path in which everything that is not named is not there."""
    parts = []
    for part in template.split("/"):
        if part.startswith("{"):
            part = names.get(part[1:-1], "absent")
        parts.append(part)
    return "/".join(parts)


def status_of(server: AmqpdServer, row: str, caller: str, **names: str) -> int:
    method, _, template = row.partition(" ")
    if ROWS[row] is ADMIN:
        # No rights are looked at, and who is let in changes nothing that is there.
        names["vhost"] = "absent"
    password = "secret" if caller else ""
    with HttpClient(server.http_port, caller, password) as client:
        path = path_of(template, {"kind": "q", **names})
        return client.call(method, path, {}).status


def refused_of(server: AmqpdServer, row: str, **names: str) -> set[str]:
    return {
        tag
        for tag in TAGS
        if not (row in ENDINGS and tag == "administrator")
        and status_of(server, row, tag, **names) == 401
    }


def test_every_endpoint_has_its_row() -> None:
    assert {f"{one.method} {one.path}": one.need for one in ENDPOINTS} == ROWS


@pytest.mark.parametrize("row", ROWS)
def test_without_a_login_it_is_refused(row: str, server: AmqpdServer) -> None:
    is_refused = status_of(server, row, "", vhost="own") == 401
    assert is_refused == (ROWS[row] is not OPEN)


@pytest.mark.parametrize("row", [row for row in ROWS if ROWS[row] is not OWNER])
def test_with_a_wrong_tag_it_is_refused(row: str, server: AmqpdServer) -> None:
    assert refused_of(server, row, vhost="own") == REFUSED[ROWS[row]]


@pytest.mark.parametrize("row", IN_VHOSTS)
def test_on_a_foreign_virtual_host_it_is_refused(row: str, server: AmqpdServer) -> None:
    need = ROWS[row]
    refused = REFUSED[need] | REFUSED_ELSEWHERE.get(need, set())
    # The broker may refuse what an administrator without rights there asks for.
    found = refused_of(server, row, vhost="foreign") - {"administrator"}
    assert found == refused


@pytest.mark.parametrize("row", [row for row in ROWS if ROWS[row] is OWNER])
def test_about_the_connection_of_somebody_else_it_is_refused(
    row: str, server: AmqpdServer
) -> None:
    expected = {"none", "policymaker", "management"}
    if row.startswith("DELETE"):
        expected.add("monitoring")
    endpoint = Endpoint("127.0.0.1", server.port, "administrator", "secret", "own")
    with RawClient(endpoint) as client:
        client.open().open_channel()
        with HttpClient(server.http_port, "administrator", "secret") as caller:
            name = caller.get("/api/connections")[0]["name"]
        refused = refused_of(
            server,
            row,
            connection=quote(name, safe=""),
            channel=quote(f"{name} (1)", safe=""),
            user="administrator",
        )
    assert refused == expected


@pytest.mark.parametrize("row", ROWS)
def test_no_call_without_content_is_an_internal_error(
    row: str, server: AmqpdServer
) -> None:
    if row not in ENDINGS:
        assert status_of(server, row, "administrator", vhost="own") != 500
