"""Runtime parameters, of a virtual host and its component or of the whole broker.

Policies have endpoints of their own and can only be looked at here, and limits of users
are no parameters to anybody outside.
"""

from __future__ import annotations

from typing import Final

from amqpd.broker.errors import NotFound
from amqpd.broker.policies.parameters import (
    GLOBAL,
    LIMITS,
    NO_VHOST,
    OPERATOR_POLICY,
    POLICY,
    USER_LIMITS,
    VHOST_LIMITS,
    Parameter,
)
from amqpd.broker.policies.policy import ParameterInvalid
from amqpd.http.answer import NO_CONTENT, Answer, put_answer
from amqpd.http.call import Call
from amqpd.http.columns import Facts
from amqpd.http.endpoint import Endpoint, Need
from amqpd.http.errors import BadRequest, Missing, NotAuthorised, ObjectNotFound
from amqpd.http.listing import Listing, single

#: What there is something for that acts on it.
COMPONENTS: Final = frozenset({OPERATOR_POLICY, VHOST_LIMITS})

_HIDDEN: Final = frozenset({GLOBAL, POLICY, USER_LIMITS})


def _facts(parameter: Parameter) -> Facts:
    return {
        "value": parameter.value,
        "vhost": parameter.vhost,
        "component": parameter.component,
        "name": parameter.name,
    }


def _global_facts(parameter: Parameter) -> Facts:
    return {"name": parameter.name, "value": parameter.value}


LISTING = Listing[Parameter](
    lambda one: (one.vhost, f"{one.component} {one.name}"), _facts
)
GLOBAL_LISTING = Listing[Parameter](lambda one: ("", one.name), _global_facts)


# -- for all endpoints that set something ---------------------------------------


async def put_parameter(call: Call, parameter: Parameter) -> None:
    """Set a parameter, a policy or limits.

    Raises:
        HttpError: it cannot be, or what it is for is not there.
    """
    changes = call.broker.changes
    try:
        changes.check(parameter)
    except ParameterInvalid as error:
        raise BadRequest(f"Validation failed\n\n{error}\n") from error
    except NotFound:
        raise Missing("vhost_not_found") from None
    await call.change(lambda done: changes.put(parameter, done))


async def remove_parameter(call: Call, vhost: str, component: str, name: str) -> None:
    """Clear a parameter, a policy or limits.

    Raises:
        HttpError: the change could not be stored.
    """
    changes = call.broker.changes
    await call.change(lambda done: changes.remove(vhost, component, name, done))


# -- of virtual hosts -----------------------------------------------------------


async def list_parameters(call: Call) -> Answer:
    """The parameters of virtual hosts, or one, or of one component there."""
    vhosts = {vhost.name for vhost in call.vhosts()}
    component = call.names.get("component")
    wanted = [
        one
        for one in call.broker.parameters.entries()
        if one.vhost in vhosts
        and one.component not in _HIDDEN
        and component in (None, one.component)
    ]
    return await LISTING.answer(call, wanted)


def _check_may_change(call: Call, component: str) -> None:
    """Check that somebody does not lift the bounds that others have set for them.

    RabbitMQ lets a policymaker do that here, while the endpoints that are made for it
    want an administrator.
    """
    if component in COMPONENTS and not call.is_administrator:
        raise NotAuthorised("Not administrator user")


def _place(call: Call) -> tuple[str, str, str]:
    return call.name("vhost"), call.name("component"), call.name("name")


def _parameter_of(call: Call) -> Parameter:
    found = call.broker.parameters.get(*_place(call))
    if found is None or found.component in _HIDDEN:
        raise ObjectNotFound
    return found


async def show_parameter(call: Call) -> Answer:
    """One parameter."""
    return single(call, _facts(_parameter_of(call)))


async def set_parameter(call: Call) -> Answer:
    """Set a parameter."""
    body = await call.body_with("value")
    vhost, component, name = _place(call)
    if component == POLICY:
        raise BadRequest("policies may not be set using this method")
    _check_may_change(call, component)
    if component not in COMPONENTS:
        raise BadRequest(f"Validation failed\n\ncomponent {component} not found\n")
    if component == VHOST_LIMITS and name != LIMITS:
        raise BadRequest(f"Validation failed\n\nthe only {component} are '{LIMITS}'\n")
    is_new = call.broker.parameters.get(vhost, component, name) is None
    await put_parameter(call, Parameter(vhost, component, name, body["value"]))
    return put_answer(is_new)


async def delete_parameter(call: Call) -> Answer:
    """Clear a parameter."""
    found = _parameter_of(call)
    _check_may_change(call, found.component)
    await remove_parameter(call, found.vhost, found.component, found.name)
    return NO_CONTENT


# -- of the whole broker --------------------------------------------------------


async def list_global_parameters(call: Call) -> Answer:
    """What is set for the whole broker."""
    return await GLOBAL_LISTING.answer(call, call.broker.parameters.global_parameters())


def _global_parameter_of(call: Call) -> Parameter:
    found = call.broker.parameters.get(NO_VHOST, GLOBAL, call.name("name"))
    if found is None:
        raise ObjectNotFound
    return found


async def show_global_parameter(call: Call) -> Answer:
    """One value."""
    return single(call, _global_facts(_global_parameter_of(call)))


async def set_global_parameter(call: Call) -> Answer:
    """Set a value."""
    body = await call.body_with("value")
    name = call.name("name")
    is_new = call.broker.parameters.get(NO_VHOST, GLOBAL, name) is None
    await put_parameter(call, Parameter(NO_VHOST, GLOBAL, name, body["value"]))
    return put_answer(is_new)


async def delete_global_parameter(call: Call) -> Answer:
    """Clear a value."""
    found = _global_parameter_of(call)
    await remove_parameter(call, NO_VHOST, GLOBAL, found.name)
    return NO_CONTENT


_ALL = "/api/parameters"
_ONE = _ALL + "/{component}/{vhost}/{name}"
_GLOBAL = "/api/global-parameters"
_POLICYMAKER = Need.POLICYMAKER

ENDPOINTS = (
    Endpoint("GET", _ALL, _POLICYMAKER, list_parameters),
    Endpoint("GET", _ALL + "/{component}", _POLICYMAKER, list_parameters),
    Endpoint("GET", _ALL + "/{component}/{vhost}", _POLICYMAKER, list_parameters),
    Endpoint("GET", _ONE, _POLICYMAKER, show_parameter),
    Endpoint("PUT", _ONE, _POLICYMAKER, set_parameter),
    Endpoint("DELETE", _ONE, _POLICYMAKER, delete_parameter),
    Endpoint("GET", _GLOBAL, _POLICYMAKER, list_global_parameters),
    Endpoint("GET", _GLOBAL + "/{name}", _POLICYMAKER, show_global_parameter),
    Endpoint("PUT", _GLOBAL + "/{name}", _POLICYMAKER, set_global_parameter),
    Endpoint("DELETE", _GLOBAL + "/{name}", _POLICYMAKER, delete_global_parameter),
)
