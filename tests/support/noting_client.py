"""A socket for the ticker that has none."""

from __future__ import annotations

from amqpd.protocol.output import Output
from tests.support.connection_pair import octets_of


class NotingClient:
    """A client's socket that notes what the ticker asks of it."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self.written = b""
        self.looked_at: list[int] = []
        self.regulated = 0

    def flush(self) -> None:
        """Write what there is."""
        self.written += octets_of(self.output)
        self.output.wake_consumers()

    def regulate_reading(self) -> None:
        """Count."""
        self.regulated += 1

    def on_time(self, now_ms: int) -> None:
        """Note when."""
        self.looked_at.append(now_ms)
