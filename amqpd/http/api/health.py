"""Health checks: 200 if all is well, 503 and why if not.

Those that container platforms ask have no login. What can only go wrong in a cluster
is well here.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from amqpd.http.answer import Answer, json_answer
from amqpd.http.call import Call
from amqpd.http.columns import Facts
from amqpd.http.endpoint import Endpoint, Need
from amqpd.http.errors import BadRequest, ObjectNotFound
from amqpd.http.room import AMQP_TLS

OK: Final[Facts] = {"status": "ok"}
SINGLE: Final[Facts] = {"status": "ok", "reason": "single node cluster"}
#: How people call AMQP 0-9-1 -> how lists of listeners do.
PROTOCOLS: Final = {
    "amqp091": "amqp",
    "amqp0.9.1": "amqp",
    "amqp0-9-1": "amqp",
    "amqp": "amqp",
    "amqp091s": "amqp/ssl",
    "amqps": "amqp/ssl",
}
TIME_UNITS: Final = {"days": 1, "weeks": 7, "months": 30, "years": 365}
DAY_S: Final = 86_400


def _failed(reason: str, facts: Facts) -> Answer:
    return json_answer({"status": "failed", "reason": reason, **facts}, 503)


async def is_well(call: Call) -> Answer:
    """What answers at all is well."""
    return json_answer(OK)


async def is_well_alone(call: Call) -> Answer:
    """What can only be ill together with others."""
    return json_answer(SINGLE)


async def check_alarms(call: Call) -> Answer:
    """Whether memory and disk suffice."""
    return _alarms(call, "There are alarms in effect in the cluster")


async def check_local_alarms(call: Call) -> Answer:
    """The same, of this node."""
    return _alarms(call, "There are alarms in effect on the node")


def _alarms(call: Call, reason: str) -> Answer:
    node = call.room.identity.node
    alarms = [
        {"node": node, "resource": resource}
        for resource in call.broker.alarms.resources()
    ]
    return _failed(reason, {"alarms": alarms}) if alarms else json_answer(OK)


async def check_port(call: Call) -> Answer:
    """Whether somebody listens on a port."""
    wanted = call.name("port")
    if not wanted.isdecimal():
        raise BadRequest("Invalid port")
    ports = sorted({one.port for one in call.room.listeners})
    if int(wanted) in ports:
        return json_answer({**OK, "port": int(wanted)})
    facts = {"missing": int(wanted), "ports": ports}
    return _failed("No active listener", facts)


async def check_protocols(call: Call) -> Answer:
    """Whether protocols are spoken, several with commas between them."""
    wanted = call.name("protocol")
    names = [name.strip() for name in wanted.split(",")]
    protocols = [PROTOCOLS.get(name.lower(), name.lower()) for name in names]
    spoken = sorted({one.protocol for one in call.room.listeners})
    if set(protocols) <= set(spoken):
        return json_answer({**OK, "protocol": ",".join(protocols)})
    facts = {"missing": wanted, "protocols": spoken}
    return _failed("No active listener", facts)


async def check_certificates(call: Call) -> Answer:
    """Whether the certificate, if there is one, is valid long enough."""
    if call.name("unit") not in TIME_UNITS:
        raise BadRequest(
            "Time unit not recognised. Supported units: days, weeks, months, years."
        )
    if not call.name("within").isdecimal():
        raise BadRequest("Invalid expiration value.")
    expires_s = call.room.certificate_expires_s()
    within_s = int(call.name("within")) * TIME_UNITS[call.name("unit")] * DAY_S
    if expires_s is None or expires_s > call.room.now_ms() / 1000 + within_s:
        return json_answer(OK)
    expired = [
        {
            "node": call.room.identity.node,
            "protocol": listener.protocol,
            "interface": listener.address,
            "port": listener.port,
            "certfile_expires_on": [_date(expires_s)],
        }
        for listener in call.room.listeners
        if listener.protocol == AMQP_TLS
    ]
    return _failed("Certificates expiring", {"expired": expired})


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


async def check_node(call: Call) -> Answer:
    """The check that was asked before there were several."""
    if call.names.get("node", call.room.identity.node) != call.room.identity.node:
        raise ObjectNotFound
    return _alarms(call, "resource alarm(s) in effect")


async def check_vhost(call: Call) -> Answer:
    """Whether a virtual host is there."""
    call.vhost()
    return json_answer(OK)


_CHECKS: Final = "/api/health/checks"
_LOGGED_IN: Final = {
    "/alarms": check_alarms,
    "/local-alarms": check_local_alarms,
    "/port-listener/{port}": check_port,
    "/protocol-listener/{protocol}": check_protocols,
    "/virtual-hosts": is_well,
    "/certificate-expiration/{within}/{unit}": check_certificates,
    "/node-is-quorum-critical": is_well_alone,
    "/node-is-mirror-sync-critical": is_well_alone,
    "/metadata-store/initialized": is_well,
    "/metadata-store/initialized/with-data": is_well,
    "/quorum-queues-without-elected-leaders/all-vhosts": is_well,
    "/quorum-queues-without-elected-leaders/vhost/{vhost}": is_well,
}
_OPEN: Final = (
    "/is-in-service",
    "/below-node-connection-limit",
    "/ready-to-serve-clients",
    "/reached-target-cluster-size",
)

ENDPOINTS = (
    *(
        Endpoint("GET", _CHECKS + path, Need.MANAGEMENT, handler)
        for path, handler in _LOGGED_IN.items()
    ),
    *(Endpoint("GET", _CHECKS + path, Need.NOTHING, is_well) for path in _OPEN),
    Endpoint("GET", "/api/healthchecks/node", Need.MANAGEMENT, check_node),
    Endpoint("GET", "/api/healthchecks/node/{node}", Need.MANAGEMENT, check_node),
    Endpoint("GET", "/api/aliveness-test/{vhost}", Need.VHOST, check_vhost),
)
