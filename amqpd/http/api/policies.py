"""Policies and operator policies."""

from __future__ import annotations

from typing import Final

from amqpd.broker.policies.parameters import OPERATOR_POLICY, POLICY, Parameter
from amqpd.broker.policies.policy import Policy
from amqpd.http.answer import NO_CONTENT, Answer, put_answer
from amqpd.http.api.parameters import put_parameter, remove_parameter
from amqpd.http.call import Call
from amqpd.http.columns import Facts
from amqpd.http.endpoint import Endpoint, Need
from amqpd.http.errors import BadRequest, ObjectNotFound
from amqpd.http.listing import Listing, single
from amqpd.http.paging import is_costly

Placed = tuple[str, Policy]

#: What a policy says; anything else is passed over.
_FIELDS: Final = ("pattern", "apply-to", "definition", "priority")
#: What is not said of a policy when it is set.
_DEFAULTS: Final[dict[str, object]] = {"priority": 0}


def policy_facts(placed: Placed) -> Facts:
    """Return a policy as lists and definitions have it."""
    vhost, policy = placed
    return {
        "vhost": vhost,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": policy.definition,
        "priority": policy.priority,
    }


LISTING = Listing[Placed](lambda placed: (placed[0], placed[1].name), policy_facts)


async def _list(call: Call, is_operator: bool) -> Answer:
    placed = [
        (vhost.name, policy)
        for vhost in call.vhosts()
        for policy in vhost.topology.policies.entries(is_operator)
    ]
    return await LISTING.answer(call, placed)


def _policy_of(call: Call, is_operator: bool) -> Policy | None:
    policies = call.vhost().topology.policies
    return policies.get(call.name("name"), is_operator)


async def _show(call: Call, is_operator: bool) -> Answer:
    policy = _policy_of(call, is_operator)
    if policy is None:
        raise ObjectNotFound
    return single(call, policy_facts((call.vhost().name, policy)))


async def _put(call: Call, component: str) -> Answer:
    body = await call.body_with("pattern", "definition")
    pattern = body["pattern"]
    if not call.is_administrator and isinstance(pattern, str) and is_costly(pattern):
        # It is tried on every name that is declared from now on.
        raise BadRequest("the regular expression is too complex")
    is_new = _policy_of(call, component == OPERATOR_POLICY) is None
    value = dict(_DEFAULTS)
    for key in _FIELDS:
        if key in body:
            value[key] = body[key]
    vhost, name = call.vhost().name, call.name("name")
    await put_parameter(call, Parameter(vhost, component, name, value))
    return put_answer(is_new)


async def _delete(call: Call, component: str) -> Answer:
    policy = _policy_of(call, component == OPERATOR_POLICY)
    if policy is None:
        raise ObjectNotFound
    await remove_parameter(call, call.vhost().name, component, policy.name)
    return NO_CONTENT


async def list_policies(call: Call) -> Answer:
    """The policies of one virtual host, or of all that the user may see."""
    return await _list(call, False)


async def show_policy(call: Call) -> Answer:
    """One policy."""
    return await _show(call, False)


async def put_policy(call: Call) -> Answer:
    """Set a policy."""
    return await _put(call, POLICY)


async def delete_policy(call: Call) -> Answer:
    """Clear a policy."""
    return await _delete(call, POLICY)


async def list_operator_policies(call: Call) -> Answer:
    """The operator policies of one virtual host, or of all that the user may see."""
    return await _list(call, True)


async def show_operator_policy(call: Call) -> Answer:
    """One operator policy."""
    return await _show(call, True)


async def put_operator_policy(call: Call) -> Answer:
    """Set an operator policy."""
    return await _put(call, OPERATOR_POLICY)


async def delete_operator_policy(call: Call) -> Answer:
    """Clear an operator policy."""
    return await _delete(call, OPERATOR_POLICY)


_ALL = "/api/policies"
_OF_OPERATORS = "/api/operator-policies"
_IN = "/{vhost}"
_ONE = "/{vhost}/{name}"
_ADMIN = Need.ADMINISTRATOR

ENDPOINTS = (
    Endpoint("GET", _ALL, Need.MANAGEMENT, list_policies),
    Endpoint("GET", _ALL + _IN, Need.VHOST, list_policies),
    Endpoint("GET", _ALL + _ONE, Need.POLICYMAKER, show_policy),
    Endpoint("PUT", _ALL + _ONE, Need.POLICYMAKER, put_policy),
    Endpoint("DELETE", _ALL + _ONE, Need.POLICYMAKER, delete_policy),
    Endpoint("GET", _OF_OPERATORS, Need.MANAGEMENT, list_operator_policies),
    Endpoint("GET", _OF_OPERATORS + _IN, Need.VHOST, list_operator_policies),
    Endpoint("GET", _OF_OPERATORS + _ONE, _ADMIN, show_operator_policy),
    Endpoint("PUT", _OF_OPERATORS + _ONE, _ADMIN, put_operator_policy),
    Endpoint("DELETE", _OF_OPERATORS + _ONE, _ADMIN, delete_operator_policy),
)
