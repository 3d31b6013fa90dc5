"""connection.update-secret: a client shows anew who it is."""

from __future__ import annotations

import struct

from pamqp import commands

from tests.support.differences import Expectations
from tests.support.raw_client import (
    METHOD,
    RawClient,
    connection_closed,
    longstr,
    shortstr,
)


def update_secret(client: RawClient, secret: str) -> None:
    arguments = longstr(secret.encode()) + shortstr(b"it has expired")
    client.send_frame(METHOD, 0, struct.pack(">HH", 10, 70) + arguments)


def test_a_new_secret_that_is_right_is_taken(client: RawClient) -> None:
    update_secret(client, client.endpoint.password)
    client.expect_method(0, commands.Connection.UpdateSecretOk)
    assert client.get(client.temporary_queue()) is None


def test_a_new_secret_that_is_wrong_is_530(
    client: RawClient, expectations: Expectations
) -> None:
    update_secret(client, "wrong")
    if expectations.differ("secret-of-a-user-with-a-password"):
        client.expect_method(0, commands.Connection.UpdateSecretOk)
        return
    text = "NOT_ALLOWED - New secret was refused by one of the backends"
    client.expect_refusal(connection_closed(530, text, 10, 70))
