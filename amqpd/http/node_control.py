"""What `amqpctl` tells the process, and RabbitMQ's API has no path for.

    PUT /api/amqpd/app         {"state": "running" | "stopped" | "ended" | "blank"}
    PUT /api/amqpd/listeners   {"state": "running" | "suspended"}
    PUT /api/amqpd/vm-memory-high-watermark   {"relative": 0.6} or {"absolute": 2e9}
    PUT /api/amqpd/disk-free-limit            the same; relative to memory
    PUT /api/amqpd/log-level                  {"level": "debug"}
    GET /api/config/effective                 [{"key": .., "value": .., "origin": ..}]

What is set here lasts no longer than the process, a limit no longer than until the
node stops; the configuration has what lasts.

The answer comes first: a node that is stopped, or started again, opens the port of the
API anew. While it is stopped, a table of the same paths is served in which most of
them refuse (`standby_endpoints`), so that whoever asks is told why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from amqpd.broker.alarms import ResourceLimit
from amqpd.http.answer import NO_CONTENT, Answer, json_answer
from amqpd.http.call import Call
from amqpd.http.endpoint import Endpoint, Need
from amqpd.http.errors import BadRequest, Unavailable
from amqpd.http.node_port import NodeRuns
from amqpd.logs import set_level

LOG_LEVELS: Final = ("debug", "info", "warning", "error", "critical")

#: More than any machine has; a number of JSON may be infinite.
SHARE_MAX: Final = 1e12

#: What a stopped node does, too.
_STANDBY_PATHS: Final = ("/api/amqpd/app", "/api/config/effective", "/api/whoami")


async def set_app_state(call: Call) -> Answer:
    """Stop the broker, start it again, empty it when stopped, or end the process."""
    changes = {
        "running": call.room.node.start_app,
        "stopped": call.room.node.stop_app,
        "ended": call.room.node.end,
    }
    state = (await call.body_with("state"))["state"]
    if state == "blank":
        await _reset(call)
    elif state in changes:
        changes[state]()
    else:
        raise _unknown_state(state, (*changes, "blank"))
    return NO_CONTENT


async def _reset(call: Call) -> None:
    try:
        await call.room.node.reset()
    except NodeRuns:
        node = call.room.identity.node
        raise BadRequest(
            f"the node {node} is running; it must be stopped first (stop_app)"
        ) from None
    except OSError as error:
        raise Unavailable(f"cannot be reset: {error}") from error


async def set_listener_state(call: Call) -> Answer:
    """Let clients connect, or not."""
    state = (await call.body_with("state"))["state"]
    if state == "suspended":
        call.room.node.suspend_listeners()
    elif state == "running":
        try:
            await call.room.node.resume_listeners()
        except OSError as error:
            raise Unavailable(f"cannot listen: {error}") from error
    else:
        raise _unknown_state(state, ("running", "suspended"))
    return NO_CONTENT


async def set_memory_watermark(call: Call) -> Answer:
    """Change how much memory may be used before publishers are held."""
    limit = _limit(await call.body())
    call.broker.alarms.set_memory_watermark(limit)
    call.room.wake()
    return NO_CONTENT


async def set_disk_free_limit(call: Call) -> Answer:
    """Change how much of the disk must be free, or publishers are held."""
    limit = _limit(await call.body())
    call.broker.alarms.set_disk_free_limit(limit)
    call.room.wake()
    return NO_CONTENT


def _limit(body: Mapping[str, object]) -> ResourceLimit:
    """Return the limit that a body says.

    Raises:
        BadRequest: it says none, or two.
    """
    absolute, relative = body.get("absolute"), body.get("relative")
    if isinstance(absolute, int) and relative is None and absolute >= 0:
        return ResourceLimit(absolute)
    if (
        isinstance(relative, int | float)
        and absolute is None
        and 0 <= relative <= SHARE_MAX
    ):
        return ResourceLimit(None, float(relative))
    raise BadRequest("a limit is absolute, in octets, or relative, to memory")


async def set_log_level(call: Call) -> Answer:
    """Change which records the log gets."""
    level = (await call.body_with("level"))["level"]
    if level not in LOG_LEVELS:
        raise BadRequest(f"no level {level!r}; there are {', '.join(LOG_LEVELS)}")
    set_level(level)
    return NO_CONTENT


async def show_settings(call: Call) -> Answer:
    """The effective configuration."""
    rows = call.room.node.settings()
    return json_answer(
        [{"key": key, "value": value, "origin": origin} for key, value, origin in rows]
    )


def _unknown_state(state: object, states: Iterable[str]) -> BadRequest:
    return BadRequest(f"no state {state!r}; there are {', '.join(states)}")


async def refuse(call: Call) -> Answer:
    """Refuse what a stopped node cannot do.

    Raises:
        Unavailable: always.
    """
    raise Unavailable("the node is stopped; amqpctl start_app starts it")


def standby_endpoints(endpoints: Iterable[Endpoint]) -> tuple[Endpoint, ...]:
    """Return the table of a node that is stopped."""
    return tuple(
        each if each.path in _STANDBY_PATHS else replace(each, handler=refuse)
        for each in endpoints
    )


ENDPOINTS: Final = (
    Endpoint("PUT", "/api/amqpd/app", Need.ADMINISTRATOR, set_app_state),
    Endpoint("PUT", "/api/amqpd/listeners", Need.ADMINISTRATOR, set_listener_state),
    Endpoint(
        "PUT",
        "/api/amqpd/vm-memory-high-watermark",
        Need.ADMINISTRATOR,
        set_memory_watermark,
    ),
    Endpoint(
        "PUT", "/api/amqpd/disk-free-limit", Need.ADMINISTRATOR, set_disk_free_limit
    ),
    Endpoint("PUT", "/api/amqpd/log-level", Need.ADMINISTRATOR, set_log_level),
    Endpoint("GET", "/api/config/effective", Need.ADMINISTRATOR, show_settings),
)
