"""One row of the table of the API: a method, a path, who may call it, who answers.

    Endpoint("GET", "/api/queues/{vhost}/{name}", Need.VHOST, show_queue)

What a user needs is said here and checked in one place, before the handler runs; so a
test can go through the table and try every row as somebody who may not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum

from amqpd.http.answer import Answer
from amqpd.http.call import MANAGEMENT_TAGS, POLICYMAKER, Call
from amqpd.http.errors import NotAuthorised, ObjectNotFound

Handler = Callable[[Call], Awaitable[Answer]]


class Need(Enum):
    """What it takes to call an endpoint."""

    #: Nothing, not even a login.
    NOTHING = "nothing"
    #: Any tag that lets a user in; lists show what the user may see.
    MANAGEMENT = "management"
    #: As before, and the handler checks whose object it is (`Call.check_owner`).
    OWNER = "owner"
    #: Rights in the virtual host of the path, or the tag administrator.
    VHOST = "vhost"
    #: As before, or the tag monitoring.
    VHOST_VISIBLE = "vhost visible"
    #: The tag policymaker and rights in the virtual host of the path, if it names one;
    #: or the tag administrator.
    POLICYMAKER = "policymaker"
    #: The tag monitoring or administrator.
    MONITORING = "monitoring"
    #: The tag administrator.
    ADMINISTRATOR = "administrator"


@dataclass(frozen=True)
class Endpoint:
    """One row."""

    method: str
    path: str
    need: Need
    handler: Handler


def check_allowed(endpoint: Endpoint, call: Call) -> None:
    """Check that the caller may call it.

    Raises:
        NotAuthorised: not so.
        ObjectNotFound: the virtual host that decides it is not there.
    """
    need = endpoint.need
    if need is Need.NOTHING:
        return
    tags = call.user.tags
    if MANAGEMENT_TAGS.isdisjoint(tags):
        raise NotAuthorised("Not management user")
    if call.is_administrator or need in (Need.MANAGEMENT, Need.OWNER):
        return
    if need is Need.ADMINISTRATOR:
        raise NotAuthorised("Not administrator user")
    if need is Need.MONITORING:
        if not call.is_monitor:
            raise NotAuthorised("Not monitor user")
    elif need is Need.POLICYMAKER:
        if POLICYMAKER not in tags or not _may_enter(call):
            raise NotAuthorised("User not authorised to access object")
    elif not (need is Need.VHOST_VISIBLE and call.is_monitor) and not _may_enter(call):
        raise NotAuthorised("User not authorised to access virtual host")


def _may_enter(call: Call) -> bool:
    name = call.names.get("vhost")
    if name is None:
        return True
    if name not in call.broker.vhosts:
        raise ObjectNotFound
    return call.may_enter(name)
