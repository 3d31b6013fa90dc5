"""Health checks: each succeeds, or says what is wrong and ends with 69."""

from __future__ import annotations

import socket
from typing import Any, Final

from amqpd.cli.ctl.errors import EXIT_UNAVAILABLE, Failure, Refused
from amqpd.cli.ctl.facts import listeners_of
from amqpd.cli.ctl.table import Answer
from amqpd.cli.ctl.verb import Call, Option, Verb

_CONNECT_S: Final = 5.0
#: Listening there says nothing about the address to connect to.
_ANY: Final = ("0.0.0.0", "[::]")


def _checked(call: Call, *names: str, ok: str) -> str:
    """Return `ok` if the API's check succeeds.

    Raises:
        Failure: it does not.
    """
    try:
        call.api.get("health", "checks", *names)
    except Refused as error:
        if error.status != 503:
            raise
        text = f"{'/'.join(names)}: {error.reason or 'failed'}"
        raise Failure(text, EXIT_UNAVAILABLE) from error
    return ok


def check_alarms(call: Call) -> Answer:
    """Fail if anything has run short."""
    ok = "The broker reported no alarms, local or clusterwide"
    return _checked(call, "alarms", ok=ok)


def check_local_alarms(call: Call) -> Answer:
    """Fail if anything has run short on this node."""
    return _checked(call, "local-alarms", ok="The broker reported no local alarms")


def check_port_listener(call: Call) -> Answer:
    """Fail if nobody listens on a port."""
    port = call.said.port
    if not port.isdecimal():
        raise Failure(f"a port is a number, not {port!r}", 64)
    ok = f"A listener for port {port} is running."
    return _checked(call, "port-listener", port, ok=ok)


def check_protocol_listener(call: Call) -> Answer:
    """Fail if nobody speaks a protocol."""
    protocol = call.said.protocol
    ok = f"A listener for protocol {protocol} is running."
    return _checked(call, "protocol-listener", protocol, ok=ok)


def check_virtual_hosts(call: Call) -> Answer:
    """Fail if a virtual host does not run."""
    return _checked(call, "virtual-hosts", ok="All vhosts are running")


def check_certificate_expiration(call: Call) -> Answer:
    """Fail if a certificate expires soon."""
    within, unit = call.said.within, call.said.unit
    ok = f"No certificates are expiring within {within} {unit}."
    return _checked(call, "certificate-expiration", within, unit, ok=ok)


def check_quorum(call: Call) -> Answer:
    """Fail if the node must not be stopped: never, on a single one."""
    ok = "No quorum queue depends on this node alone"
    return _checked(call, "node-is-quorum-critical", ok=ok)


def check_port_connectivity(call: Call) -> Answer:
    """Fail if a port that the broker listens on cannot be connected to from here."""
    overview = call.api.get("overview")
    ports, closed = [], []
    for listener in listeners_of(overview):
        where = _address(call, listener)
        ports.append(str(listener["port"]))
        try:
            socket.create_connection(where, _CONNECT_S).close()
        except OSError as error:
            closed.append(f"{where[0]}:{where[1]} ({error.strerror or error})")
    if closed:
        raise Failure(f"Connection failed to {', '.join(closed)}")
    return f"Successfully connected to ports {', '.join(ports)}."


def _address(call: Call, listener: dict[str, Any]) -> tuple[str, int]:
    address = listener["interface"]
    host = call.api.host if address in _ANY else address.strip("[]")
    return host, int(listener["port"])


_PORT_BANNER: Final = "Asking if there's an active listener on port {port} ..."

VERBS: Final = (
    Verb(
        "check_alarms",
        check_alarms,
        "fail if memory or disk has run short",
        banner="Asking for resource alarms ...",
    ),
    Verb(
        "check_local_alarms",
        check_local_alarms,
        "the same, on this node",
        banner="Asking for local resource alarms ...",
    ),
    Verb(
        "check_port_listener",
        check_port_listener,
        "fail if nobody listens on a port",
        "port",
        banner=_PORT_BANNER,
    ),
    Verb(
        "check_port_connectivity",
        check_port_connectivity,
        "fail if a port cannot be connected to from here",
        banner="Testing TCP connections to all active listeners ...",
    ),
    Verb(
        "check_protocol_listener",
        check_protocol_listener,
        "fail if nobody speaks a protocol: amqp, http, ...",
        "protocol",
        banner="Asking if there's an active listener for protocol {protocol} ...",
    ),
    Verb(
        "check_virtual_hosts",
        check_virtual_hosts,
        "fail if a virtual host does not run",
        banner="Checking if all vhosts are running ...",
    ),
    Verb(
        "check_certificate_expiration",
        check_certificate_expiration,
        "fail if a certificate expires soon",
        options=(
            Option("--within", "how soon", "COUNT", default="4"),
            Option(
                "--unit",
                "of --within",
                choices=("days", "weeks", "months", "years"),
                default="weeks",
            ),
        ),
        banner="Checking certificate expiration ...",
    ),
    Verb(
        "check_if_node_is_quorum_critical",
        check_quorum,
        "fail if stopping this node stops queues; a single node is never critical",
    ),
)
