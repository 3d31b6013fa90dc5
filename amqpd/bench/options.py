"""What a run shall do: where, how many of what, how large, how fast, how long.

The meanings are those of RabbitMQ's PerfTest where it has the same thing: rate, count
and prefetch are those of each producer and each consumer, not of all together.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from amqpd.bench.errors import OptionsInvalid
from amqpd.bench.message import PRODUCER_MAX, STAMP_SIZE

PORT: Final = 5672
TLS_PORT: Final = 5671
EXCHANGE_TYPES: Final = ("direct", "fanout", "topic", "headers")
QUEUE_TYPES: Final = ("classic", "quorum")
WINDOW_MAX: Final = 1_000_000
SIZE_MAX: Final = 128 * 1024 * 1024


@dataclass(frozen=True)
class Target:
    """The broker and who we are there; what an amqp:// URL says."""

    host: str
    port: int
    user: str
    password: str
    vhost: str
    is_tls: bool = False

    @classmethod
    def from_url(cls, url: str) -> Target:
        """Take a URL apart.

        Raises:
            OptionsInvalid: it is none of AMQP's.
        """
        parts = urlsplit(url)
        hint = "write amqp://user:password@host:port/vhost, a / in a vhost as %2F"
        if parts.scheme not in ("amqp", "amqps"):
            raise OptionsInvalid(f"{url} is not an AMQP URL", hint)
        try:
            port = parts.port
        except ValueError as error:
            raise OptionsInvalid(f"{url}: {error}", hint) from error
        is_tls = parts.scheme == "amqps"
        return cls(
            host=parts.hostname or "localhost",
            port=port or (TLS_PORT if is_tls else PORT),
            user=unquote(parts.username or "guest"),
            password=unquote(parts.password or "guest"),
            vhost=unquote(parts.path[1:]) or "/",
            is_tls=is_tls,
        )

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Options:
    """Everything a run is told."""

    target: Target
    producers: int = 1
    consumers: int = 1
    queues: int = 1
    #: Octets of a body.
    size: int = 1024
    #: Messages a second of each producer; 0 is as fast as it goes.
    rate: float = 0.0
    #: Messages of each producer, or None, then time decides.
    count: int | None = None
    seconds: float = 10.0
    persistent: bool = False
    #: Unconfirmed messages of each producer; 0 is without confirms.
    confirm: int = 0
    auto_ack: bool = False
    ack_every: int = 1
    prefetch: int = 0
    exchange: str = "direct"
    #: Of the queues that are there; of one, or a pattern for several.
    queue: str | None = None
    queue_type: str | None = None
    queue_arguments: dict[str, object] = field(default_factory=dict)
    keep: bool = False
    verify: bool = False
    #: Go on when the broker is back, instead of ending with it.
    reconnect: bool = False
    #: How long nothing may arrive at the end before the rest counts as lost.
    patience_s: float = 10.0

    def check(self) -> None:
        """Refuse what cannot be done or would never end.

        Raises:
            OptionsInvalid: that is so.
        """
        self._check_ranges()
        if not self.producers and not self.consumers:
            raise OptionsInvalid("neither producers nor consumers: nothing to do")
        if self.verify and not (self.producers and self.consumers):
            raise OptionsInvalid("--verify needs producers and consumers")
        if self.verify and self.consumers < self.queues:
            raise OptionsInvalid(
                "--verify needs a consumer for every queue",
                f"--consumers {self.queues}, or fewer --queues",
            )
        if self.verify and self.reconnect and (self.auto_ack or not self.confirm):
            raise OptionsInvalid(
                "--verify with --reconnect needs --confirm and manual acks: without "
                "them, what is on its way when the connection is lost may be lost"
            )
        if not self.auto_ack and 0 < self.prefetch < self.ack_every:
            raise OptionsInvalid(
                f"--ack-every {self.ack_every} with --prefetch {self.prefetch} would "
                "wait for ever: so many are never on their way"
            )
        if not self.producers and self.queue is None:
            raise OptionsInvalid("without producers, --queue says what to consume")

    def as_json(self) -> dict[str, object]:
        """Return what was asked for, less where and by whom."""
        return {key: value for key, value in asdict(self).items() if key != "target"}

    def _check_ranges(self) -> None:
        ranges = (
            ("producers", self.producers, 0, PRODUCER_MAX),
            ("consumers", self.consumers, 0, PRODUCER_MAX),
            ("queues", self.queues, 1, 100_000),
            ("size", self.size, STAMP_SIZE, SIZE_MAX),
            ("confirm", self.confirm, 0, WINDOW_MAX),
            ("ack-every", self.ack_every, 1, 65535),
            ("prefetch", self.prefetch, 0, 65535),
        )
        for name, value, lowest, highest in ranges:
            if not lowest <= value <= highest:
                why = ": every message bears a stamp" if name == "size" else ""
                raise OptionsInvalid(
                    f"--{name} is {lowest} to {highest}, not {value}{why}"
                )
        if self.count is not None and self.count < 1:
            raise OptionsInvalid(f"--count is at least 1, not {self.count}")
        for name, number in (("rate", self.rate), ("seconds", self.seconds)):
            if number < 0 or number != number:
                raise OptionsInvalid(f"--{name} is not negative, not {number}")
