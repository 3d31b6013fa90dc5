"""The loop of a run: publish what may be, read what has come, tell how it goes.

    publish    until the count or the time is up
    confirm    until every publish is answered, and the broker has read the last one
    drain      until everything has arrived, or nothing can come any more
    cancel     until the broker has said that it delivers nothing more

Everything happens on one thread, in turns: a batch from every producer that may
publish, then whatever the sockets have. The last three steps are there to count
right; without a count or --verify the run ends with its time.

It knows sockets and the clock; what is published and counted, it leaves to producers
and consumers.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable
from typing import Final

from pamqp import commands
from pamqp.base import Frame

from amqpd.bench.connection import Connection
from amqpd.bench.crew import CONSUMER_TAG, NEVER, Crew, Member, Sender
from amqpd.bench.errors import (
    BenchError,
    ConnectionClosed,
    ConnectionLost,
    RunFailed,
)
from amqpd.bench.figures import Counts, Latency, Snapshot
from amqpd.bench.histogram import Histogram
from amqpd.bench.options import Options
from amqpd.bench.own_cost import OwnCost
from amqpd.bench.topology import Topology

_SECOND: Final = 1_000_000_000
_REPORT_EVERY: Final = _SECOND
#: Whoever watches wants to see soon that it runs.
_FIRST_REPORT: Final = _SECOND // 5
#: How long it must be quiet before the queues are looked at.
_QUIET: Final = _SECOND // 5
_RECONNECT_PATIENCE: Final = 60 * _SECOND
_RECONNECT_PAUSE_S: Final = 0.1
_PUBLISHING: Final = "publishing"
_CONSUMING: Final = "consuming"

#: Told once a second how it goes.
Observer = Callable[[Snapshot], None]


class Load:
    """One run, from the first publish to the last delivery."""

    def __init__(
        self,
        options: Options,
        crew: Crew,
        topology: Topology,
        control: Connection,
        observer: Observer,
    ) -> None:
        self.latency = Histogram()
        self.confirm_latency = Histogram()
        #: What the generator took while it published, and all in all.
        self.publish_cost = OwnCost()
        self.cost = OwnCost()
        self.blocked_ns = 0
        self.reconnects = 0
        #: Messages that were there when it was over.
        self.left_in_queues = 0
        #: The last reason, also when it is over.
        self.blocked: str | None = None
        self._options = options
        self._crew = crew
        self._topology = topology
        self._control = control
        self._observer = observer
        self._selector = selectors.DefaultSelector()
        self._phase = ""
        self._began = time.monotonic_ns()
        self._began_cost = self._reported_cost = OwnCost.now()
        self._is_blocked = False
        self._turned_at = 0
        self._reported_at = 0
        self._report_due = _REPORT_EVERY
        self._reported = Counts()

    def run(self) -> None:
        """Do all of it.

        Raises:
            RunFailed: the broker, or the way to it, is lost.
            KeyboardInterrupt: somebody has seen enough.
        """
        self._register()
        if not self._until(self._all_have_answered, "starting"):
            raise RunFailed("the broker does not answer basic.consume")
        self._start_clock()
        try:
            self._publish()
        finally:
            self.publish_cost = OwnCost.now().since(self._began_cost)
        if self._options.verify or self._options.count is not None:
            self._finish()
        self.left_in_queues = self._ready(self._topology.queues)

    def end(self) -> None:
        """Put what was measured last to the rest."""
        self._selector.close()
        self.cost = OwnCost.now().since(self._began_cost)
        self.latency.absorb(self._crew.latency)
        self.confirm_latency.absorb(self._crew.confirm_latency)

    # -- the steps

    def _publish(self) -> None:
        self._phase = _PUBLISHING if self._crew.senders else _CONSUMING
        options = self._options
        ends_at = NEVER
        if options.count is None:
            ends_at = int(options.seconds * _SECOND)
        while (now := self._now()) < ends_at and not self._has_enough():
            self._turn(now, ends_at)

    def _finish(self) -> None:
        for sender in self._crew.senders:
            sender.producer.stop()
        self._until(self._all_are_confirmed, "confirming")
        for sender in self._crew.senders:
            # Its answer comes when the broker has routed everything before it.
            self._tell(sender, commands.Channel.Close(200, "all published", 0, 0))
        self._until(self._all_have_answered, "confirming")
        self._drain()
        for receiver in self._crew.receivers:
            receiver.consumer.acknowledge_rest()
            self._tell(receiver, commands.Basic.Cancel(CONSUMER_TAG))
        self._until(self._all_have_answered, "ending")

    def _tell(self, member: Member, method: Frame) -> None:
        """Say something that will be answered."""
        try:
            member.say(method)
            self._watch(member)
        except ConnectionLost as error:
            self._reconnect(error)

    def _drain(self) -> None:
        """Receive until everything has come, or what is missing cannot come."""
        if not self._crew.receivers:
            return
        patience = int(self._options.patience_s * _SECOND)
        moved_at = self._now()
        while True:
            before = self._crew.counts()
            self._until(self._has_all, "draining", _QUIET)
            if self._has_all() or self._crew.counts() == before:
                if self._is_empty() or self._now() - moved_at >= patience:
                    return
                # There is more than was expected, or it takes its time.
                self._until(_never, "draining", _QUIET)
            if self._crew.counts() != before:
                moved_at = self._now()

    def _until(
        self, is_so: Callable[[], bool], phase: str, patience: int | None = None
    ) -> bool:
        """Take turns until `is_so`, but not longer than nothing moves for so long."""
        self._phase = phase
        if patience is None:
            patience = int(self._options.patience_s * _SECOND)
        counts = self._crew.counts()
        moved_at = now = self._now()
        while not is_so():
            self._turn(now, moved_at + patience)
            now = self._now()
            if (new := self._crew.counts()) != counts:
                counts, moved_at = new, now
            elif now - moved_at >= patience:
                return False
        return True

    # -- what they wait for

    def _all_have_answered(self) -> bool:
        return not any(member.is_waiting for member in self._crew.members())

    def _all_are_confirmed(self) -> bool:
        return not any(
            sender.producer.unconfirmed or sender.connection.has_unsent
            for sender in self._crew.senders
        )

    def _has_enough(self) -> bool:
        options = self._options
        if self._crew.senders:
            return all(
                sender.producer.is_done and not sender.connection.has_unsent
                for sender in self._crew.senders
            )
        if options.count is None:
            return False
        return self._crew.counts().delivered >= options.count * options.consumers

    def _has_all(self) -> bool:
        return self._crew.counts().delivered >= self._crew.expected()

    def _is_empty(self) -> bool:
        return not self._ready(self._topology.queues[: self._options.consumers])

    def _ready(self, queues: list[str]) -> int:
        """How many messages wait in those queues."""
        while True:
            try:
                return self._topology.ready(self._control, queues)
            except (ConnectionLost, ConnectionClosed) as error:
                self._reconnect(error)

    # -- a turn

    def _turn(self, now: int, ends_at: int) -> None:
        """Publish what may be and receive what is there; wait if there is nothing."""
        try:
            self._exchange(now, ends_at)
        except (ConnectionLost, ConnectionClosed) as error:
            self._reconnect(error)
        now = self._now()
        if self._is_blocked:
            self.blocked_ns += now - self._turned_at
        self._turned_at = now
        if now >= self._report_due:
            self._report(now)

    def _exchange(self, now: int, ends_at: int) -> None:
        wakes_at = min(self._report_due, ends_at)
        if self._phase == _PUBLISHING:
            for sender in self._crew.senders:
                wakes_at = min(wakes_at, self._drive(sender))
        for key, events in self._selector.select(max(0, wakes_at - now) / _SECOND):
            self._serve(key.data, events)

    def _drive(self, sender: Sender) -> int:
        """Let a producer publish; return when it may do so again."""
        now = self._now()
        count = sender.count_now(now)
        if count > 0:
            sender.producer.publish(count, now)
            sender.flush()
            self._watch(sender)
        # Whoever has just finished is asked at once whether all have.
        return 0 if count > 0 and sender.producer.is_done else sender.next_at()

    def _serve(self, member: Member, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            member.connection.flush()
        if events & selectors.EVENT_READ:
            before = member.blocked
            for data in member.connection.receive():
                member.receive(data, self._now())
            if member.blocked is not before:
                self._note_blocked(member)
        self._watch(member)

    def _watch(self, member: Member) -> None:
        """Wait for room to write only where something is to be written."""
        wanted = selectors.EVENT_READ
        if member.connection.has_unsent:
            wanted |= selectors.EVENT_WRITE
        if wanted != member.events:
            member.events = wanted
            self._selector.modify(member.connection, wanted, member)

    # -- when the broker is lost

    def _register(self) -> None:
        for member in self._crew.members():
            self._selector.register(member.connection, selectors.EVENT_READ, member)

    def _reconnect(self, error: RunFailed) -> None:
        """Connect everybody anew, as often as it takes.

        Raises:
            RunFailed: that was not asked for, or the broker does not come back.
        """
        if not self._options.reconnect:
            raise error
        phase, self._phase = self._phase, "reconnecting"
        gives_up_at = self._now() + _RECONNECT_PATIENCE
        for key in list(self._selector.get_map().values()):
            self._selector.unregister(key.fileobj)
        while not self._is_back():
            if self._now() >= gives_up_at:
                raise error
            time.sleep(_RECONNECT_PAUSE_S)
            if self._now() >= self._report_due:
                self._report(self._now())
        self._register()
        self._is_blocked = False
        self.reconnects += 1
        self._phase = phase

    def _is_back(self) -> bool:
        self._crew.disconnect()
        try:
            self._control.reopen()
            self._crew.reopen()
        except BenchError:
            return False
        return True

    # -- the account

    def _now(self) -> int:
        return time.monotonic_ns() - self._began

    def _start_clock(self) -> None:
        self._began = time.monotonic_ns()
        self._began_cost = self._reported_cost = OwnCost.now()
        self._turned_at = self._reported_at = 0
        self._report_due = _FIRST_REPORT

    def _note_blocked(self, member: Member) -> None:
        self.blocked = member.blocked or self.blocked
        self._is_blocked = any(
            sender.blocked is not None for sender in self._crew.senders
        )
        # Whoever watches learns of it at once.
        self._report(self._now())

    def _report(self, now: int) -> None:
        """Tell the observer what happened since the last time."""
        crew = self._crew
        counts, before = crew.counts(), self._reported
        cost = OwnCost.now()
        # Just after a report there is nothing to divide by.
        elapsed_s = max(now - self._reported_at, 1_000_000) / _SECOND
        done, left_s = self._progress(now, counts)
        self._observer(
            Snapshot(
                phase=self._phase,
                elapsed_s=now / _SECOND,
                done=done,
                left_s=left_s,
                counts=counts,
                publish_rate=(counts.published - before.published) / elapsed_s,
                deliver_rate=(counts.delivered - before.delivered) / elapsed_s,
                latency=Latency.of(crew.latency),
                confirm_latency=Latency.of(crew.confirm_latency),
                cost=cost.since(self._reported_cost),
                blocked=self.blocked if self._is_blocked else None,
            )
        )
        self.latency.absorb(crew.latency)
        self.confirm_latency.absorb(crew.confirm_latency)
        self._reported, self._reported_at, self._reported_cost = counts, now, cost
        self._report_due = now + _REPORT_EVERY

    def _progress(self, now: int, counts: Counts) -> tuple[float, float | None]:
        """Return how much is done, from 0 to 1, and the seconds that are left."""
        options = self._options
        if self._phase not in (_PUBLISHING, _CONSUMING):
            return counts.delivered / max(self._crew.expected(), 1), None
        if options.count is None:
            left_s = max(0.0, options.seconds - now / _SECOND)
            return min(1.0, now / _SECOND / max(options.seconds, 1e-9)), left_s
        if self._phase == _PUBLISHING:
            done = counts.published / (options.count * options.producers)
        else:
            done = min(1.0, counts.delivered / (options.count * options.consumers))
        return done, now / _SECOND * (1 - done) / done if done else None


def _never() -> bool:
    return False
