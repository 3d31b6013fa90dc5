"""Permissions of users in virtual hosts, and on the routing keys of topic exchanges."""

from __future__ import annotations

from amqpd.auth.permissions import PatternInvalid, Permission, TopicPermission
from amqpd.http import fields
from amqpd.http.answer import NO_CONTENT, Answer, put_answer
from amqpd.http.api.users import user_of
from amqpd.http.call import Call
from amqpd.http.columns import Facts
from amqpd.http.endpoint import Endpoint, Need
from amqpd.http.errors import BadRequest, ObjectNotFound
from amqpd.http.listing import Listing, single


def _facts(rights: Permission) -> Facts:
    return {
        "user": rights.user,
        "vhost": rights.vhost,
        "configure": rights.configure,
        "write": rights.write,
        "read": rights.read,
    }


def _topic_facts(rights: TopicPermission) -> Facts:
    return {
        "user": rights.user,
        "vhost": rights.vhost,
        "exchange": rights.exchange,
        "write": rights.write,
        "read": rights.read,
    }


LISTING = Listing[Permission](lambda one: (one.vhost, one.user), _facts)
TOPIC_LISTING = Listing[TopicPermission](
    lambda one: (one.vhost, f"{one.user} {one.exchange}"), _topic_facts
)


# -- permissions -------------------------------------------------------------


async def list_permissions(call: Call) -> Answer:
    """All permissions."""
    return await LISTING.answer(call, call.broker.permissions.entries())


async def list_permissions_in_vhost(call: Call) -> Answer:
    """Who may do what in a virtual host."""
    name = call.vhost().name
    entries = call.broker.permissions.entries()
    return await LISTING.answer(call, [one for one in entries if one.vhost == name])


async def list_permissions_of_user(call: Call) -> Answer:
    """What a user may do, and where."""
    name = user_of(call).name
    entries = call.broker.permissions.entries()
    return await LISTING.answer(call, [one for one in entries if one.user == name])


def _permission_of(call: Call) -> Permission:
    rights = call.broker.permissions.get(user_of(call).name, call.vhost().name)
    if rights is None:
        raise ObjectNotFound
    return rights


async def show_permission(call: Call) -> Answer:
    """The rights of one user in one virtual host."""
    return single(call, _facts(_permission_of(call)))


def _check_ends(call: Call) -> tuple[str, str]:
    """Return the user and the virtual host that rights are about."""
    user, vhost = call.name("user"), call.name("vhost")
    broker = call.broker
    if broker.users.get(user) is None or vhost not in broker.vhosts:
        raise BadRequest("vhost_or_user_not_found")
    return user, vhost


async def put_permission(call: Call) -> Answer:
    """Give a user rights in a virtual host."""
    body = await call.body_with("configure", "write", "read")
    user, vhost = _check_ends(call)
    patterns = [fields.text(body, key) for key in ("configure", "write", "read")]
    try:
        rights = Permission(user, vhost, *patterns)
    except PatternInvalid as error:
        raise BadRequest(str(error)) from error
    is_new = call.broker.permissions.get(user, vhost) is None
    accounts = call.broker.accounts
    await call.change(lambda done: accounts.put_permission(rights, done))
    return put_answer(is_new)


async def delete_permission(call: Call) -> Answer:
    """Take a user's rights in a virtual host away."""
    rights = _permission_of(call)
    accounts = call.broker.accounts
    await call.change(
        lambda done: accounts.delete_permission(rights.user, rights.vhost, done)
    )
    return NO_CONTENT


# -- topic permissions -------------------------------------------------------


async def list_topic_permissions(call: Call) -> Answer:
    """All topic permissions."""
    return await TOPIC_LISTING.answer(call, call.broker.permissions.topic_entries())


async def list_topic_permissions_in_vhost(call: Call) -> Answer:
    """The topic permissions in a virtual host."""
    name = call.vhost().name
    entries = call.broker.permissions.topic_entries()
    wanted = [one for one in entries if one.vhost == name]
    return await TOPIC_LISTING.answer(call, wanted)


async def list_topic_permissions_of_user(call: Call) -> Answer:
    """The topic permissions of a user."""
    name = user_of(call).name
    entries = call.broker.permissions.topic_entries()
    wanted = [one for one in entries if one.user == name]
    return await TOPIC_LISTING.answer(call, wanted)


def _topic_permissions_of(call: Call) -> list[TopicPermission]:
    """Return those that the path is about, at least one."""
    user, vhost = user_of(call).name, call.vhost().name
    exchange = call.names.get("exchange")
    found = [
        one
        for one in call.broker.permissions.topic_entries()
        if (one.user, one.vhost) == (user, vhost)
        and (exchange is None or one.exchange == call.name("exchange"))
    ]
    if not found:
        raise ObjectNotFound
    return found


async def show_topic_permissions(call: Call) -> Answer:
    """The topic permissions of a user in a virtual host, or on one exchange."""
    return await TOPIC_LISTING.answer(call, _topic_permissions_of(call))


async def put_topic_permission(call: Call) -> Answer:
    """Say which routing keys of an exchange a user may use."""
    body = await call.body_with("exchange", "write", "read")
    user, vhost = _check_ends(call)
    exchange = fields.text(body, "exchange")
    write, read = fields.text(body, "write"), fields.text(body, "read")
    try:
        rights = TopicPermission(user, vhost, exchange, write, read)
    except PatternInvalid as error:
        raise BadRequest(str(error)) from error
    is_new = call.broker.permissions.topic(user, vhost, exchange) is None
    accounts = call.broker.accounts
    await call.change(lambda done: accounts.put_topic_permission(rights, done))
    return put_answer(is_new)


async def delete_topic_permissions(call: Call) -> Answer:
    """Let a user use all routing keys again, of one exchange or of all."""
    found = _topic_permissions_of(call)
    user, vhost = found[0].user, found[0].vhost
    exchanges = [one.exchange for one in found]
    accounts = call.broker.accounts
    await call.change(
        lambda done: accounts.delete_topic_permissions(user, vhost, exchanges, done)
    )
    return NO_CONTENT


_RIGHTS = "/api/permissions/{vhost}/{user}"
_TOPICS = "/api/topic-permissions/{vhost}/{user}"
_ADMIN = Need.ADMINISTRATOR

ENDPOINTS = (
    Endpoint("GET", "/api/permissions", _ADMIN, list_permissions),
    Endpoint(
        "GET", "/api/vhosts/{vhost}/permissions", _ADMIN, list_permissions_in_vhost
    ),
    Endpoint("GET", "/api/users/{user}/permissions", _ADMIN, list_permissions_of_user),
    Endpoint("GET", _RIGHTS, _ADMIN, show_permission),
    Endpoint("PUT", _RIGHTS, _ADMIN, put_permission),
    Endpoint("DELETE", _RIGHTS, _ADMIN, delete_permission),
    Endpoint("GET", "/api/topic-permissions", _ADMIN, list_topic_permissions),
    Endpoint(
        "GET",
        "/api/vhosts/{vhost}/topic-permissions",
        _ADMIN,
        list_topic_permissions_in_vhost,
    ),
    Endpoint(
        "GET",
        "/api/users/{user}/topic-permissions",
        _ADMIN,
        list_topic_permissions_of_user,
    ),
    Endpoint("GET", _TOPICS, _ADMIN, show_topic_permissions),
    Endpoint("PUT", _TOPICS, _ADMIN, put_topic_permission),
    Endpoint("DELETE", _TOPICS, _ADMIN, delete_topic_permissions),
    Endpoint("GET", _TOPICS + "/{exchange}", _ADMIN, show_topic_permissions),
    Endpoint("DELETE", _TOPICS + "/{exchange}", _ADMIN, delete_topic_permissions),
)
