"""The turn of the loop, and the only one who sleeps.

    confirms (steps that came back) -> feeds -> dispatch -> writes -> syncs

Reads happen between turns; each wakes the ticker, and one turn serves them all. A turn
is bounded by work: frames that are left over and queues that are left dirty go on in
the next one. Steps that block run on threads of their own and come back through
`call_soon_threadsafe`.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final, Protocol, cast

from amqpd.broker.broker import Broker
from amqpd.broker.ports import Step
from amqpd.clock import Clock
from amqpd.net.garbage import GarbageRounds
from amqpd.net.worker import Worker
from amqpd.protocol.output import OutputQueue
from amqpd.protocol.ports import PendingConnections

logger = logging.getLogger("amqpd.ticker")

# Frames that were left over are processed round by round, each connection its budget,
# until this time is spent: one round a turn would mean a write every 500 messages
# (measured: 0.80 CPU-seconds per million transient messages, against 0.6 with rounds).
FEED_SECONDS_MAX: Final = 0.001
DISPATCH_SECONDS_MAX: Final = 0.004
# Often enough for a heartbeat of one second, which is due every half.
SWEEP_SECONDS: Final = 0.25
# Waiting for the log: more than this is written to the page cache at once.
WRITE_SIZE: Final = 1024 * 1024
# A disk that is full, or dead, does not keep the broker from ending.
DRAIN_SECONDS_MAX: Final = 5.0
# Begun and waiting for the disk: from here on sockets are not read, until half of it.
DISK_BEHIND_SIZE: Final = 64 * 1024 * 1024


class Client(Protocol):
    """A client's socket, as the ticker needs it."""

    def flush(self) -> None:
        """Write what the connection has to say this turn."""

    def regulate_reading(self) -> None:
        """Read the socket, or do not, as the connection's state wants it."""

    def on_time(self, now_ms: int) -> None:
        """Deadlines and heartbeats."""


class Ticker:
    """Drives the broker: turns, syncs, the sweep over connections."""

    def __init__(
        self,
        broker: Broker,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        tick_seconds: float,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.outputs = OutputQueue()
        self.pending = PendingConnections()
        # Sockets that are not read for now.
        self.paused: set[Client] = set()
        self.is_disk_behind = False
        # The longest turn since the start.
        self.turn_seconds_max = 0.0
        self.garbage = GarbageRounds(loop.time())
        self._broker = broker
        self._clock = clock
        self._loop = loop
        self._tick_seconds = tick_seconds
        self._on_fatal = on_fatal
        self._is_scheduled = False
        self._tick: asyncio.TimerHandle | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._syncs_in_flight = 0
        self._is_committing = False
        self._is_failed = False
        self._writer = Worker("amqpd-log", loop)
        self._committer = Worker("amqpd-metadata", loop)

    def now_ms(self) -> int:
        """The time that is handed to everybody else."""
        return self._clock.now_ms()

    def wake(self) -> None:
        """There is something to do in the next turn."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    def start_sweep(self, members: Callable[[], list[Client]]) -> None:
        """Look after the deadlines of all connections every SWEEP_SECONDS."""
        self._sweep = self._loop.call_later(SWEEP_SECONDS, self.start_sweep, members)
        now_ms = self.now_ms()
        for client in members():
            client.on_time(now_ms)
        if self.outputs.has_work():
            # Heartbeats: nothing else may happen for a long time.
            self.wake()
        self.garbage.on_time(self._loop.time())

    # -- a turn ---------------------------------------------------------------

    def _turn(self) -> None:
        started = time.perf_counter()
        self._is_scheduled = False
        now_ms = self.now_ms()
        feed_deadline = started + FEED_SECONDS_MAX
        while self.pending.has_work():
            for connection in self.pending.take():
                connection.advance(now_ms)
            if time.perf_counter() > feed_deadline:
                break
        dispatch = self._broker.dispatch
        deadline = started + DISPATCH_SECONDS_MAX
        while dispatch.has_work():
            dispatch.visit_next()
            if time.perf_counter() > deadline:
                break
        for output in self.outputs.take_dirty():
            if output.sink is not None:
                cast(Client, output.sink).flush()
        self._begin_steps(now_ms)
        self._watch_disk()
        if self.paused:
            self._regulate()
        if self.pending.has_work() or dispatch.has_work() or self.outputs.has_work():
            self.wake()
        seconds = time.perf_counter() - started
        if seconds > self.turn_seconds_max:
            self.turn_seconds_max = seconds

    def _regulate(self) -> None:
        """Listen again to those who may be listened to."""
        for client in list(self.paused):
            client.regulate_reading()

    # -- steps ----------------------------------------------------------------

    def _begin_steps(self, now_ms: int) -> None:
        if self._is_failed:
            return
        durability = self._broker.durability
        if durability.bytes_waiting >= WRITE_SIZE:
            self._submit_write(durability.begin(False, now_ms))
        if durability.is_wanted and not self._syncs_in_flight:
            self._sync(now_ms)
        elif durability.has_work and self._tick is None:
            self._tick = self._loop.call_later(self._tick_seconds, self._on_tick)
        if self._broker.metadata_has_work() and not self._is_committing:
            step = self._broker.begin_metadata()
            if step is not None:
                self._is_committing = True
                self._committer.submit(step, self._metadata_done)

    def _on_tick(self) -> None:
        self._tick = None
        if not self._syncs_in_flight and not self._is_failed:
            self._sync(self.now_ms())

    def _sync(self, now_ms: int) -> None:
        step = self._broker.durability.begin(True, now_ms)
        if step is not None:
            self._syncs_in_flight += 1
            self._writer.submit(step, self._sync_done)

    def _submit_write(self, step: Step | None) -> None:
        if step is not None:
            self._writer.submit(step, self._write_done)

    def _sync_done(self, step: Step) -> None:
        self._syncs_in_flight -= 1
        self._write_done(step)

    def _write_done(self, step: Step) -> None:
        fatal: BaseException | None
        try:
            fatal = self._broker.durability.complete(step)
        except Exception as error:
            # Ours to mend; but nobody may wait for ever for what this step carried.
            logger.exception("a step of the log could not be completed")
            fatal = error
        self.wake()
        if fatal is not None and not self._is_failed:
            self._is_failed = True
            # After the turn that writes the nacks: a close would swallow them.
            self._loop.call_soon(self._on_fatal, fatal)

    def _metadata_done(self, step: Step) -> None:
        self._is_committing = False
        self._broker.complete_metadata(step)
        self.wake()

    def _watch_disk(self) -> None:
        durability = self._broker.durability
        size = durability.bytes_waiting + durability.bytes_in_flight
        limit = DISK_BEHIND_SIZE // 2 if self.is_disk_behind else DISK_BEHIND_SIZE
        self.is_disk_behind = size > limit

    # -- the end --------------------------------------------------------------

    async def drain(self) -> None:
        """Wait until all that was begun or waits is on the disk, if it can be."""
        deadline = self._loop.time() + DRAIN_SECONDS_MAX
        while (
            not self._is_failed
            and self._loop.time() < deadline
            and (
                self._syncs_in_flight
                or self._is_committing
                or self._broker.durability.has_work
                or self._broker.durability.bytes_in_flight
                or self._broker.metadata_has_work()
            )
        ):
            if not self._syncs_in_flight:
                self._sync(self.now_ms())
            self.wake()
            await asyncio.sleep(0.001)

    def close(self) -> None:
        """Stop the timers and the threads."""
        for timer in (self._tick, self._sweep):
            if timer is not None:
                timer.cancel()
        self._writer.close()
        self._committer.close()
