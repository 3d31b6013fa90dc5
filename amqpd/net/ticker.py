"""The turn of the loop, and the only one who sleeps.

    confirms (steps that came back) -> what is due -> feeds -> dispatch -> writes
                                                                -> memory -> disk

Reads happen between turns; each wakes the ticker, and one turn serves them all. What
the disk has done is answered at once if it comes alone. A turn is bounded by work:
frames that are left over, queues that are left dirty and outputs that are not written
go on in the next one, and so does letting go of messages when memory is short. What
blocks is `Disk`'s: it comes back through `call_soon_threadsafe`.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol, cast

from amqpd.broker.broker import Broker
from amqpd.broker.timers import NEVER_MS
from amqpd.clock import Clock
from amqpd.net.busy_time import BusySelector
from amqpd.net.disk import Disk
from amqpd.net.garbage import GarbageRounds
from amqpd.net.idle_memory import IdleMemory
from amqpd.net.resources import ResourceWatch
from amqpd.protocol.output import OutputQueue
from amqpd.protocol.ports import PendingConnections

# Frames that were left over are processed round by round, each connection its budget,
# until this time is spent: one round a turn would mean a write every 500 messages
# (measured: 0.80 CPU-seconds per million transient messages, against 0.6 with rounds).
FEED_SECONDS_MAX: Final = 0.001
DISPATCH_SECONDS_MAX: Final = 0.004
# A thousand consumers of one fanout take 12 ms: more than a few are for the next turn.
WRITE_SECONDS_MAX: Final = 0.004
PAGE_OUT_SECONDS_MAX: Final = 0.002
# Often enough for a heartbeat of one second, which is due every half.
SWEEP_SECONDS: Final = 0.25


class Client(Protocol):
    """A client's socket, as the ticker needs it."""

    def flush(self) -> None:
        """Write what the connection has to say this turn."""

    def regulate_reading(self) -> None:
        """Read the socket, or do not, as the connection's state wants it."""

    def on_time(self, now_ms: int) -> None:
        """Deadlines and heartbeats."""


class Ticker:
    """Drives the broker: turns, steps, the sweep over connections."""

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
        # The longest turn since the start.
        self.turn_seconds_max = 0.0
        self.garbage = GarbageRounds(loop.time(), self.population)
        self.idle_memory = IdleMemory(self._let_go)
        # How many there have been.
        self.turns = 0
        # How many sockets have been accepted.
        self.accepted_count = 0
        # None: nobody looks, no alarm ever comes.
        self.resources: ResourceWatch | None = None
        # None: nobody measures the loop.
        self.busy: BusySelector | None = None
        self._broker = broker
        self._clock = clock
        self._loop = loop
        self._is_scheduled = False
        self._sweep: asyncio.TimerHandle | None = None
        # When something of the broker's is due; the alarm wakes us then.
        self._due_ms: int = NEVER_MS
        self._alarm: asyncio.TimerHandle | None = None
        self.disk = Disk(
            broker, loop, self.now_ms, tick_seconds, self.wake, self.serve, on_fatal
        )

    @property
    def is_disk_behind(self) -> bool:
        """Whether so much waits for the disk that no socket is to be read."""
        return self.disk.is_behind

    @property
    def wait_seconds(self) -> float:
        """How long whoever waits longest for a sync has waited."""
        return self.disk.wait_age.age_ms(self._clock.now_ms()) / 1000

    @property
    def busy_seconds_max(self) -> float:
        """The longest time for which the loop was busy in one go, since the start."""
        return self.busy.seconds_max if self.busy is not None else 0.0

    def population(self) -> tuple[int, int]:
        """How many clients and queues there are, and how much has gone so far.

        Gone are sockets, of those who were turned away too, channels and queues.
        """
        broker = self._broker
        clients = len(broker.connections)
        queues = sum(len(vhost.queues) for vhost in broker.vhosts.values())
        churn = broker.churn
        gone = self.accepted_count - clients
        gone += churn.channels_closed + churn.queues_deleted
        return clients + queues, gone

    def now_ms(self) -> int:
        """The time that is handed to everybody else."""
        now_ms = self._clock.now_ms()
        self._broker.timers.now_ms = now_ms
        return now_ms

    def wake(self) -> None:
        """There is something to do in the next turn."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    def serve(self) -> None:
        """The disk has done something: make a turn, at once if nothing came with it.

        A turn that is put off costs a round of the loop, a tenth of the time of a lone
        confirm. Of what is read that would make more and smaller turns: where clients
        send all the time, each message would cost a tenth more.
        """
        busy = self.busy
        if self._is_scheduled or busy is None or busy.ready_count > 1:
            self.wake()
            return
        try:
            self._turn()
        except Exception as error:  # noqa: BLE001 - told as the loop would tell it
            # What the disk has done is done all the same.
            self._loop.call_exception_handler(
                {"message": "a turn failed", "exception": error}
            )

    def start_sweep(self, members: Callable[[], list[Client]]) -> None:
        """Look after the deadlines of all connections every SWEEP_SECONDS."""
        self._sweep = self._loop.call_later(SWEEP_SECONDS, self.start_sweep, members)
        now_ms = self.now_ms()
        for client in members():
            client.on_time(now_ms)
        if self.resources is not None and self.resources.look(now_ms):
            self.wake()
        if self.outputs.has_work() or self._broker.timers.has_starting:
            # Heartbeats, or a queue that was loaded: nothing else may happen for long.
            self.wake()
        # Before the disk: its reader has emptied its caches when the next sweep gives
        # memory back.
        self.idle_memory.on_time(self._loop.time(), self.turns)
        self.disk.on_time(now_ms)
        if self.garbage.on_time(self._loop.time()):
            self.wake()

    def demand_garbage(self) -> None:
        """Memory is short: what the collector can find is to be found soon."""
        self.garbage.demand(self._loop.time())

    def _let_go(self) -> None:
        self.outputs.drop_spare()
        self._broker.upkeep.empty_caches()
        self.garbage.hasten(self._loop.time())

    # -- a turn ---------------------------------------------------------------

    def _turn(self) -> None:
        self._is_scheduled = False
        self.turns += 1
        if self.garbage.is_due and not self.disk.is_failed:
            # A turn behind it would keep everybody waiting for both.
            self.garbage.make_round(self._loop.time())
            self.wake()
            return
        started = time.perf_counter()
        now_ms = self.now_ms()
        if self.resources is not None:
            self.resources.look(now_ms)
        if now_ms >= self._due_ms or self._broker.timers.has_starting:
            self._do_what_is_due(now_ms)
        feed_deadline = started + FEED_SECONDS_MAX
        while self.pending.has_work():
            for connection in self.pending.take():
                connection.advance(now_ms)
            if time.perf_counter() > feed_deadline or self.outputs.is_full:
                break
        dispatch = self._broker.dispatch
        deadline = started + DISPATCH_SECONDS_MAX
        while dispatch.has_work():
            dispatch.visit_next()
            if time.perf_counter() > deadline:
                break
        self._write()
        self._page_out(now_ms)
        self.disk.turn(now_ms)
        if self.paused:
            self._regulate()
        if (
            self.pending.has_work()
            or dispatch.has_work()
            or self.outputs.has_work()
            or self._broker.pager.has_work
            or self._broker.timers.has_starting
        ):
            self.wake()
        seconds = time.perf_counter() - started
        if seconds > self.turn_seconds_max:
            self.turn_seconds_max = seconds

    def _write(self) -> None:
        """Write to the clients; to those for whom there is no time in the next turn.

        When the disk has failed this is the turn that writes the nacks: all of them.
        """
        outputs = self.outputs.take_dirty()
        deadline = time.perf_counter() + WRITE_SECONDS_MAX
        for at, output in enumerate(outputs):
            if output.sink is not None:
                cast(Client, output.sink).flush()
            if time.perf_counter() > deadline and not self.disk.is_failed:
                self.outputs.put_off(outputs[at + 1 :])
                return

    def _page_out(self, now_ms: int) -> None:
        """Let go of messages if memory is short, but not for long."""
        pager = self._broker.pager
        pager.turn(now_ms)
        if pager.has_work:
            deadline = time.perf_counter() + PAGE_OUT_SECONDS_MAX
            while pager.has_work and time.perf_counter() < deadline:
                pager.turn(now_ms)

    def _do_what_is_due(self, now_ms: int) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._due_ms = self._broker.timers.on_time(now_ms)
        if self._due_ms < NEVER_MS:
            # At least a millisecond: that is how exact the time is.
            seconds = max(1, self._due_ms - now_ms) / 1000
            self._alarm = self._loop.call_later(seconds, self._ring)

    def _ring(self) -> None:
        # The alarm's clock may be a little early: then it is set once more.
        self._due_ms = 0
        self.wake()

    def _regulate(self) -> None:
        """Listen again to those who may be listened to."""
        for client in list(self.paused):
            client.regulate_reading()

    # -- the end --------------------------------------------------------------

    async def drain(self) -> None:
        """Wait until all that was begun or waits is on the disk, if it can be."""
        await self.disk.drain()

    def close(self) -> None:
        """Stop the timers and the threads."""
        for timer in (self._sweep, self._alarm):
            if timer is not None:
                timer.cancel()
        self.disk.close()
