"""What can be wrong with an exchange or a binding."""

from typing import Final

_ESCAPES: Final[dict[int, bytes]] = {
    8: rb"\b",
    9: rb"\t",
    10: rb"\n",
    11: rb"\v",
    12: rb"\f",
    13: rb"\r",
    27: rb"\e",
    34: rb"\"",
    92: rb"\\",
}


class RoutingError(Exception):
    """The topology cannot be changed or asked like that; nothing was changed."""


class UnknownExchangeType(RoutingError):
    """There is no exchange type of this name."""

    def __init__(self, type_name: str) -> None:
        super().__init__(f"unknown exchange type '{type_name}'")
        self.type_name = type_name


class UnknownSource(RoutingError):
    """There is no exchange of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no exchange '{name}'")
        self.name = name


class UnknownDestination(RoutingError):
    """There is no destination, or no exchange as destination, of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no destination '{name}'")
        self.name = name


class ArgumentsInvalid(RoutingError):
    """The exchange type cannot work with these arguments of its declaration."""


class BindingInvalid(RoutingError):
    """The exchange type does not understand these arguments."""


class BindingTypeInvalid(BindingInvalid):
    """An argument that must be a string is none.

    Several wire types become one Python type, so the caller, who has the octets, may
    name the type better than this text does.
    """

    def __init__(self, key: str, value: object) -> None:
        self.key = key
        self.value = value
        super().__init__(self.text(type(value).__name__))

    def text(self, type_name: str) -> str:
        """RabbitMQ's text for a value of that wire type."""
        return (
            f"Invalid {self.key} field type {type_name} "
            f"(value {self.value!r}); expected longstr"
        )


def as_erlang(value: object) -> str:
    """Return a value as RabbitMQ's texts show it, which print Erlang terms."""
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogateescape")
    if not isinstance(value, (bytes, bytearray)):
        return str(value)
    if not value:
        return "<<>>"
    quoted = bytearray()
    for octet in value:
        if octet in _ESCAPES:
            quoted += _ESCAPES[octet]
        elif octet < 32 or 127 <= octet < 160:
            # One that cannot be printed, and all are shown as numbers.
            return f"<<{','.join([str(each) for each in value])}>>"
        else:
            quoted.append(octet)
    return f'<<"{quoted.decode("utf-8", "replace")}">>'
