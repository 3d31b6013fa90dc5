"""Limits of virtual hosts and users, and the protection of virtual hosts."""

from __future__ import annotations

from amqpd.broker.policies.number_limits import check_user_limits, check_vhost_limits
from amqpd.broker.policies.parameters import (
    LIMITS,
    NO_VHOST,
    USER_LIMITS,
    VHOST_LIMITS,
    Parameter,
)
from amqpd.broker.policies.policy import ParameterInvalid
from amqpd.http.answer import NO_CONTENT, Answer
from amqpd.http.api.parameters import put_parameter, remove_parameter
from amqpd.http.call import Call
from amqpd.http.columns import Facts
from amqpd.http.endpoint import Endpoint, Need
from amqpd.http.errors import BadRequest, ObjectNotFound
from amqpd.http.listing import Listing

Limited = tuple[str, dict[str, int]]


def _vhost_facts(limited: Limited) -> Facts:
    return {"vhost": limited[0], "value": limited[1]}


def _user_facts(limited: Limited) -> Facts:
    return {"user": limited[0], "value": limited[1]}


VHOST_LISTING = Listing[Limited](lambda limited: ("", limited[0]), _vhost_facts)
USER_LISTING = Listing[Limited](lambda limited: ("", limited[0]), _user_facts)


async def _keep(call: Call, left: Parameter) -> None:
    """Set the limits that are left; where none is, there is no parameter."""
    if left.value:
        await put_parameter(call, left)
    else:
        await remove_parameter(call, left.vhost, left.component, left.name)


# -- of virtual hosts -----------------------------------------------------------


async def list_vhost_limits(call: Call) -> Answer:
    """The limits of one virtual host, or of all that the user may see."""
    admission = call.broker.admission
    found = [
        (vhost.name, admission.limits_of_vhost(vhost.name)) for vhost in call.vhosts()
    ]
    return await VHOST_LISTING.answer(call, [one for one in found if one[1]])


async def put_vhost_limit(call: Call) -> Answer:
    """Set a limit of a virtual host."""
    body = await call.body_with("value")
    vhost = call.vhost().name
    limit = {call.name("name"): body["value"]}
    try:
        check_vhost_limits(limit)
    except ParameterInvalid as error:
        raise BadRequest(f"Validation failed\n\n{error}\n") from error
    async with call.room.change_lock:
        value = {**call.broker.admission.limits_of_vhost(vhost), **limit}
        await put_parameter(call, Parameter(vhost, VHOST_LIMITS, LIMITS, value))
    return NO_CONTENT


async def delete_vhost_limit(call: Call) -> Answer:
    """Clear a limit of a virtual host; one that is not set is cleared already."""
    vhost = call.vhost().name
    async with call.room.change_lock:
        left = dict(call.broker.admission.limits_of_vhost(vhost))
        if left.pop(call.name("name"), None) is None:
            return NO_CONTENT
        await _keep(call, Parameter(vhost, VHOST_LIMITS, LIMITS, left))
    return NO_CONTENT


# -- of users -------------------------------------------------------------------


async def list_user_limits(call: Call) -> Answer:
    """The limits of one user, or of all."""
    broker = call.broker
    names = [call.names["user"]] if "user" in call.names else broker.users.names()
    if broker.users.get(names[0]) is None:
        raise ObjectNotFound
    found = [(name, broker.admission.limits_of_user(name)) for name in names]
    return await USER_LISTING.answer(call, [one for one in found if one[1]])


def _check_user(call: Call) -> str:
    name = call.name("user")
    if call.broker.users.get(name) is None:
        raise BadRequest(["no_such_user", name])
    return name


async def put_user_limit(call: Call) -> Answer:
    """Set a limit of a user."""
    body = await call.body_with("value")
    user = _check_user(call)
    limit = {call.name("name"): body["value"]}
    try:
        check_user_limits(limit)
    except ParameterInvalid as error:
        raise BadRequest(str(error)) from error
    async with call.room.change_lock:
        value = {**call.broker.admission.limits_of_user(user), **limit}
        await put_parameter(call, Parameter(NO_VHOST, USER_LIMITS, user, value))
    return NO_CONTENT


async def delete_user_limit(call: Call) -> Answer:
    """Clear a limit of a user; one that is not set is cleared already."""
    user = _check_user(call)
    async with call.room.change_lock:
        left = dict(call.broker.admission.limits_of_user(user))
        if left.pop(call.name("name"), None) is None:
            return NO_CONTENT
        await _keep(call, Parameter(NO_VHOST, USER_LIMITS, user, left))
    return NO_CONTENT


# -- protection -----------------------------------------------------------------


async def protect_vhost(call: Call) -> Answer:
    """Let a virtual host not be deleted."""
    return await _set_protection(call, True)


async def unprotect_vhost(call: Call) -> Answer:
    """Let a virtual host be deleted again."""
    return await _set_protection(call, False)


async def _set_protection(call: Call, is_protected: bool) -> Answer:
    vhost = call.vhost()
    fields: Facts = {"protected_from_deletion": is_protected}
    accounts = call.broker.accounts
    async with call.room.change_lock:
        metadata = vhost.metadata.with_fields(fields)
        await call.change(
            lambda done: accounts.put_vhost(vhost.name, metadata, None, done)
        )
    return NO_CONTENT


_VHOST = "/api/vhost-limits"
_USER = "/api/user-limits"
_PROTECTION = "/api/vhosts/{vhost}/deletion/protection"
_ADMIN = Need.ADMINISTRATOR

ENDPOINTS = (
    Endpoint("GET", _VHOST, Need.MANAGEMENT, list_vhost_limits),
    Endpoint("GET", _VHOST + "/{vhost}", Need.VHOST_VISIBLE, list_vhost_limits),
    Endpoint("PUT", _VHOST + "/{vhost}/{name}", _ADMIN, put_vhost_limit),
    Endpoint("DELETE", _VHOST + "/{vhost}/{name}", _ADMIN, delete_vhost_limit),
    Endpoint("GET", _USER, Need.MANAGEMENT, list_user_limits),
    Endpoint("GET", _USER + "/{user}", Need.MANAGEMENT, list_user_limits),
    Endpoint("PUT", _USER + "/{user}/{name}", _ADMIN, put_user_limit),
    Endpoint("DELETE", _USER + "/{user}/{name}", _ADMIN, delete_user_limit),
    Endpoint("POST", _PROTECTION, _ADMIN, protect_vhost),
    Endpoint("DELETE", _PROTECTION, _ADMIN, unprotect_vhost),
)
