"""SASL: from a mechanism and its response to a user name and a password.

    PLAIN       authzid NUL user NUL password                 authzid is ignored
    AMQPLAIN    a field table without its length: LOGIN S, PASSWORD S
    EXTERNAL    nothing: the certificate of the TLS connection says it all

Each says everything in one response, so there is no challenge and no state. Who the
user is and whether the password is right is asked elsewhere. Bytes that are no UTF-8
survive as surrogate escapes: old clients send Latin-1 passwords, and hashes are made of
bytes.
"""

from typing import Final

from amqpd.wire.errors import SyntaxMalformed
from amqpd.wire.tables import Table, decode_table

EXTERNAL: Final = "EXTERNAL"

#: As connection.start offers them; EXTERNAL only to who has shown a certificate.
MECHANISMS: Final = ("PLAIN", "AMQPLAIN", EXTERNAL)


class MechanismUnknown(Exception):
    """The client picked a mechanism that was not offered."""


class ResponseMalformed(Exception):
    """The response does not have the form of its mechanism.

    The text never repeats the response: it may hold a password.
    """


def credentials(mechanism: str, response: bytes) -> tuple[str, str]:
    """Return the user name and the password in `response`.

    Raises:
        MechanismUnknown: it is none with a password.
        ResponseMalformed: it cannot be taken apart.
    """
    if mechanism == "PLAIN":
        return _plain(response)
    if mechanism == "AMQPLAIN":
        return _amqplain(response)
    raise unknown(mechanism)


def unknown(mechanism: str) -> MechanismUnknown:
    """The refusal of a mechanism that was not offered."""
    return MechanismUnknown(f"unknown authentication mechanism '{mechanism}'")


def _plain(response: bytes) -> tuple[str, str]:
    parts = response.split(b"\x00")
    if len(parts) != 3:
        raise ResponseMalformed("PLAIN response is not authzid NUL user NUL password")
    return _text(parts[1]), _text(parts[2])


def _amqplain(response: bytes) -> tuple[str, str]:
    try:
        table = decode_table(response)
    except SyntaxMalformed:
        raise ResponseMalformed("AMQPLAIN response is not a field table") from None
    return _field(table, "LOGIN"), _field(table, "PASSWORD")


def _field(table: Table, name: str) -> str:
    value = table.get(name)
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return _text(value)
    raise ResponseMalformed("AMQPLAIN auth info is missing LOGIN or PASSWORD field")


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")
