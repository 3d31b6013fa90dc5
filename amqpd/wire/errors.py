"""What can be wrong with bytes, before anybody asks what they mean.

The wire knows no reply codes; `amqpd.protocol.errors` turns each class into one.
"""


class WireError(Exception):
    """The peer sent bytes that are not AMQP 0-9-1."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class FrameMalformed(WireError):
    """A frame is too large, has an unknown type or no end octet (501)."""


class FrameUnknown(FrameMalformed):
    """A frame is whole, but of no type or shape that AMQP has (501)."""


class SyntaxMalformed(WireError):
    """The fields of a method, a table or a content header do not decode (502)."""


class MethodUnknown(WireError):
    """No such class or method in AMQP 0-9-1 (503)."""
