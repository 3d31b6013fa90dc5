"""Why a run cannot begin, or could not go on; each text says what to do about it."""

from __future__ import annotations


class BenchError(Exception):
    """The run is off; `hint` says what may help."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


class OptionsInvalid(BenchError):
    """What was asked for cannot be done, by anybody."""


class Unreachable(BenchError):
    """Nobody who speaks AMQP 0-9-1 answers there."""


class Refused(BenchError):
    """The broker does not let us in, or not do what the run needs."""


class RunFailed(BenchError):
    """The broker, or the way to it, was lost while the run went on."""


class ConnectionLost(RunFailed):
    """The socket has nothing more to say."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"the connection to {where} is lost: {why}")
        self.why = why


class ConnectionClosed(RunFailed):
    """The broker said connection.close."""

    def __init__(self, where: str, code: int, text: str) -> None:
        super().__init__(f"{where} closed the connection: {code} {text}")
        self.code = code
        self.text = text


class CallRefused(BenchError):
    """The broker closed the channel instead of answering."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"the broker refused: {code} {text}")
        self.code = code
