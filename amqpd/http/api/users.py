"""Users: who there is, with which tags and password hashes."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Any

from amqpd.auth.passwords import (
    ALGORITHMS,
    DEFAULT_ALGORITHM,
    SALT_SIZE,
    hash_password,
)
from amqpd.auth.users import User
from amqpd.http import fields
from amqpd.http.answer import NO_CONTENT, Answer, json_answer, put_answer
from amqpd.http.call import Call
from amqpd.http.columns import Facts
from amqpd.http.endpoint import Endpoint, Need
from amqpd.http.errors import BadRequest, ObjectNotFound
from amqpd.http.listing import Listing, single


def _facts(call: Call, user: User) -> Facts:
    return {
        "name": user.name,
        "password_hash": user.password_hash,
        "hashing_algorithm": user.algorithm,
        "tags": list(user.tags),
        "limits": call.broker.admission.limits_of_user(user.name),
    }


def _listing(call: Call) -> Listing[User]:
    return Listing(lambda user: ("", user.name), lambda user: _facts(call, user))


def user_of(call: Call) -> User:
    """Return the user that the path names.

    Raises:
        ObjectNotFound: there is none.
    """
    user = call.broker.users.get(call.name("user"))
    if user is None:
        raise ObjectNotFound
    return user


def _all_users(call: Call) -> list[User]:
    users = call.broker.users
    found = (users.get(name) for name in users.names())
    return [user for user in found if user is not None]


async def list_users(call: Call) -> Answer:
    """All users."""
    return await _listing(call).answer(call, _all_users(call))


async def list_users_without_permissions(call: Call) -> Answer:
    """Users who may enter no virtual host."""
    having = {rights.user for rights in call.broker.permissions.entries()}
    users = [user for user in _all_users(call) if user.name not in having]
    return await _listing(call).answer(call, users)


async def show_user(call: Call) -> Answer:
    """One user."""
    return single(call, _facts(call, user_of(call)))


async def put_user(call: Call) -> Answer:
    """Add or change a user: tags, and a password or its hash or none."""
    name = call.name("user")
    body = await call.body()
    if "tags" not in body and "administrator" not in body:
        raise BadRequest("tags_not_present")
    if "tags" in body:
        tags = fields.tags(body["tags"])
    else:
        tags = ("administrator",) if fields.flag(body, "administrator") else ()
    user = await _with_password(call, name, body, tags)
    is_new = call.broker.users.get(name) is None
    await call.change(lambda done: call.broker.accounts.put_user(user, done))
    return put_answer(is_new)


async def _with_password(
    call: Call, name: str, body: dict[str, Any], tags: tuple[str, ...]
) -> User:
    if "password" in body and "password_hash" in body:
        raise BadRequest("both_password_and_password_hash_are_provided")
    if "password_hash" in body:
        given = fields.text(body, "password_hash")
        algorithm = fields.text(body, "hashing_algorithm", DEFAULT_ALGORITHM)
        try:
            base64.b64decode(given, validate=True)
        except (binascii.Error, ValueError):
            raise BadRequest(["not_base64", given]) from None
        if algorithm not in ALGORITHMS:
            raise BadRequest(f"unknown password hashing algorithm '{algorithm}'")
        return User(name, given, algorithm, tags)
    password = fields.text(body, "password")
    if not password:
        # An empty one lets nobody in, as in RabbitMQ.
        return User(name, "", DEFAULT_ALGORITHM, tags)
    hashed, algorithm = await asyncio.to_thread(call.broker.hash_password, password)
    return User(name, hashed, algorithm, tags)


async def delete_user(call: Call) -> Answer:
    """Delete a user; the connections of the user end."""
    return await _delete(call, [user_of(call).name])


async def delete_users(call: Call) -> Answer:
    """Delete several users."""
    body = await call.body_with("users")
    wanted = fields.names(body["users"], "users")
    for name in wanted:
        if call.broker.users.get(name) is None:
            raise BadRequest(["no_such_user", name])
    return await _delete(call, wanted)


async def _delete(call: Call, wanted: list[str]) -> Answer:
    accounts, now_ms = call.broker.accounts, call.room.now_ms()
    await call.change(lambda done: accounts.delete_users(wanted, now_ms, done))
    call.room.wake()
    return NO_CONTENT


async def show_hash(call: Call) -> Answer:
    """The hash of a password, to be put into definitions."""
    salt = call.broker.random_octets(SALT_SIZE)
    hashed = await asyncio.to_thread(hash_password, call.name("password"), salt)
    return json_answer({"ok": hashed})


ENDPOINTS = (
    Endpoint("GET", "/api/users", Need.ADMINISTRATOR, list_users),
    Endpoint(
        "GET",
        "/api/users/without-permissions",
        Need.ADMINISTRATOR,
        list_users_without_permissions,
    ),
    Endpoint("POST", "/api/users/bulk-delete", Need.ADMINISTRATOR, delete_users),
    Endpoint("GET", "/api/users/{user}", Need.ADMINISTRATOR, show_user),
    Endpoint("PUT", "/api/users/{user}", Need.ADMINISTRATOR, put_user),
    Endpoint("DELETE", "/api/users/{user}", Need.ADMINISTRATOR, delete_user),
    Endpoint("GET", "/api/auth/hash_password/{password}", Need.MANAGEMENT, show_hash),
)
