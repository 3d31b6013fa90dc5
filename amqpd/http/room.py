"""What the handlers need of the process besides the broker: names, times, a push.

A handler changes something in the broker and wakes the loop's turn, which commits it:
nothing here waits by itself. Who serves where is filled in by whoever listens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from amqpd.broker.broker import Broker
from amqpd.broker.clients.secret_checks import SecretChecks
from amqpd.http.attempts import LoginAttempts
from amqpd.http.cors import Origins
from amqpd.http.node_port import NodePort
from amqpd.http.queue_texts import QueueTexts

AMQP: Final = "amqp"
AMQP_TLS: Final = "amqp/ssl"


@dataclass(frozen=True)
class Listener:
    """An address that is listened on; `protocol` is amqp, amqp/ssl, http..."""

    protocol: str
    address: str
    port: int


@dataclass(frozen=True)
class Identity:
    """Who we are."""

    node: str
    cluster_name: str
    amqpd_version: str
    #: The version of RabbitMQ whose behaviour is ours.
    rabbitmq_version: str
    data_dir: Path
    started_ms: int


class Ticks(Protocol):
    """What drives the broker, as far as it is measured."""

    def now_ms(self) -> int:
        """The time."""

    @property
    def turn_seconds_max(self) -> float:
        """The longest turn since the start."""

    @property
    def busy_seconds_max(self) -> float:
        """The longest time for which the loop was busy in one go, since the start."""

    @property
    def wait_seconds(self) -> float:
        """How long whoever waits longest for a sync has waited."""


@dataclass
class Room:
    """What every handler may use."""

    broker: Broker
    identity: Identity
    node: NodePort
    #: The time, as the broker is told it.
    now_ms: Callable[[], int]
    #: Something was changed, published or closed: the loop has a turn to do.
    wake: Callable[[], None]
    #: Verifies passwords that take long, when woken.
    secrets: SecretChecks
    #: Users who may log in from this machine only.
    loopback_users: frozenset[str]
    body_size_max: int
    #: How many file descriptors are open, and how many may be.
    descriptors: Callable[[], tuple[int, int]]
    #: Turns and waits, for the metrics.
    ticks: Ticks
    #: When the certificate of the listeners ends, in seconds since the epoch; None:
    #: there is none, or it is not known.
    certificate_expires_s: Callable[[], float | None] = lambda: None
    listeners: list[Listener] = field(default_factory=list)
    #: Whose pages may use the API.
    origins: Origins = field(default_factory=Origins)
    attempts: LoginAttempts = field(default_factory=LoginAttempts)
    #: Of all that is said of queues in lists.
    queue_texts: QueueTexts = field(default_factory=QueueTexts)
    #: Held from reading what there is until the change of it is durable, where a
    #: change is one of several fields: else one of two at a time would be lost.
    change_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _running: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self, work: Coroutine[None, None, None]) -> None:
        """Let something go on after the answer; nothing is lost if it never ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
