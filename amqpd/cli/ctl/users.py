"""Users: who may log in, with which password and which tags.

The API takes a user as a whole, so a verb that changes one fact reads the user first
and sends back the rest as it was.
"""

from __future__ import annotations

from typing import Any, Final

from amqpd.cli.ctl.errors import (
    EXIT_DATA,
    EXIT_SOFTWARE,
    Failure,
    Refused,
    no_such_user,
)
from amqpd.cli.ctl.table import Answer, Table
from amqpd.cli.ctl.verb import Call, Option, Verb, secret

_PRE_HASHED: Final = Option(
    "--pre-hashed-password", "the password is a hash as RabbitMQ stores it, in base64"
)
_NEXT: Final = (
    "Done. Don't forget to grant the user permissions to some virtual hosts! "
    "See '{} help set_permissions' to learn more."
)


def list_users(call: Call) -> Answer:
    """Return names and tags."""
    rows = [
        {"user": user["name"], "tags": tag_list(user["tags"])}
        for user in call.api.get("users", query={"columns": "name,tags"})
    ]
    return Table(("user", "tags"), rows)


def tag_list(tags: list[str] | str) -> list[str]:
    """Return tags, which old versions of RabbitMQ write with commas between them."""
    if isinstance(tags, str):
        return [tag for tag in tags.split(",") if tag]
    return tags


def add_user(call: Call) -> Answer:
    """Make a user who may log in and do nothing else.

    Raises:
        Failure: the name is taken. (The API would change that user.)
    """
    name = call.said.user
    password = secret(call.said.password, "Password")
    if _find(call, name) is not None:
        raise Failure(f'User "{name}" already exists', EXIT_SOFTWARE)
    key = "password_hash" if call.said.pre_hashed_password else "password"
    call.api.put("users", name, body={key: password, "tags": []})
    if call.is_rabbitmqctl:
        return _NEXT.format("rabbitmqctl")
    call.note(_NEXT.format("amqpctl"))
    return None


def delete_user(call: Call) -> Answer:
    """Take a user away."""
    name = call.said.user
    call.api.delete("users", name, missing=no_such_user(name))
    return None


def change_password(call: Call) -> Answer:
    """Give a user another password."""
    user = _get(call, call.said.user)
    password = secret(call.said.password, "New password")
    body = {"password": password, "tags": user["tags"]}
    call.api.put("users", user["name"], body=body)
    return None


def clear_password(call: Call) -> Answer:
    """Let a user log in by other means than a password only."""
    user = _get(call, call.said.user)
    body = {"password_hash": "", "tags": user["tags"]}
    call.api.put("users", user["name"], body=body)
    return None


def set_user_tags(call: Call) -> Answer:
    """Replace a user's tags."""
    user = _get(call, call.said.user)
    words = call.said.tag
    tags = [tag for word in words for tag in word.replace(",", " ").split()]
    body = {key: user[key] for key in ("password_hash", "hashing_algorithm")}
    # A list is understood by newer versions only.
    body["tags"] = ",".join(tags)
    call.api.put("users", user["name"], body=body)
    return None


def authenticate_user(call: Call) -> Answer:
    """Say whether a user's password is right.

    Raises:
        Failure: it is not.
    """
    name = call.said.user
    password = secret(call.said.password, "Password")
    try:
        with call.api.as_user(name, password) as theirs:
            theirs.get("whoami")
    except Refused as error:
        # Who may not use the API, but is told so, was recognized.
        if not error.reason.startswith("Not "):
            text = f'failed to authenticate user "{name}"\n{error.reason}'
            raise Failure(text, EXIT_DATA) from error
    return "Success"


def hash_password(call: Call) -> Answer:
    """Return a hash as RabbitMQ stores it, for definition files; nobody is asked."""
    import os
    from base64 import b64encode
    from hashlib import sha256

    password = secret(call.said.password, "Password")
    salt = os.urandom(4)
    return b64encode(salt + sha256(salt + password.encode()).digest()).decode()


def _find(call: Call, name: str) -> Any:
    missing = no_such_user(name)
    try:
        return call.api.get("users", name, missing=missing)
    except Failure as error:
        if error is missing:
            return None
        raise


def _get(call: Call, name: str) -> Any:
    return call.api.get("users", name, missing=no_such_user(name))


VERBS: Final = (
    Verb("list_users", list_users, "users and their tags", banner="Listing users ..."),
    Verb(
        "add_user",
        add_user,
        "make a user; without a password on the line it is asked for, or piped in",
        "user password?",
        (_PRE_HASHED,),
        banner='Adding user "{user}" ...',
    ),
    Verb(
        "delete_user",
        delete_user,
        "take a user away",
        "user",
        banner='Deleting user "{user}" ...',
    ),
    Verb(
        "change_password",
        change_password,
        "give a user another password",
        "user password?",
        banner='Changing password for user "{user}" ...',
    ),
    Verb(
        "clear_password",
        clear_password,
        "no password lets this user in any more",
        "user",
        banner='Clearing password for user "{user}" ...',
    ),
    Verb(
        "set_user_tags",
        set_user_tags,
        "replace a user's tags: administrator, monitoring, policymaker, management",
        "user tag*",
        banner='Setting tags for user "{user}" to [{tag}] ...',
    ),
    Verb(
        "authenticate_user",
        authenticate_user,
        "say whether a password is right",
        "user password?",
        banner='Authenticating user "{user}" ...',
    ),
    Verb(
        "hash_password",
        hash_password,
        "hash a password as RabbitMQ does, for definition files",
        "password?",
        banner="Will hash password ...",
    ),
)
