"""Going round everything in a virtual host after its policies have changed.

    begin(exchanges, queues, done)     the first of them at once
    on_due       some more, when others had their turn
    done()       everything keeps the rules that it has to keep now

A change that comes while a round is under way begins it anew: whoever waits for the
first is told when the second is over.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.exchange import Exchange
from amqpd.broker.queues.keeper import KeepersRound
from amqpd.broker.queues.queue import Queue
from amqpd.broker.timers import NEVER_MS, Timed, Timers

# So many at a time: less than a millisecond for most, which nothing changes for.
QUEUES_MAX: Final = 100
EXCHANGES_MAX: Final = 500


@final
class PolicyRound(Timed):
    """The rounds in one virtual host."""

    def __init__(
        self,
        apply: Callable[[Queue], None],
        apply_to_exchange: Callable[[Exchange], None],
        timers: Timers,
        keepers: KeepersRound,
    ) -> None:
        super().__init__()
        self._apply = apply
        self._apply_to_exchange = apply_to_exchange
        self._timers = timers
        self._keepers = keepers
        self._left: list[Queue] = []
        self._exchanges_left: list[Exchange] = []
        self._done: list[Callable[[], None]] = []

    def begin(
        self, exchanges: list[Exchange], queues: list[Queue], done: Callable[[], None]
    ) -> None:
        """Go round all of these; others that come keep the new rules already."""
        self._exchanges_left = exchanges
        self._left = queues
        self._done.append(done)
        self._go_on()
        if self._done:
            self._timers.start(self)

    def on_start(self, now_ms: i64) -> i64:
        """Others had their turn."""
        return self.on_due(now_ms)

    def on_due(self, now_ms: i64) -> i64:
        """Go on."""
        self._go_on()
        return now_ms + 1 if self._done else NEVER_MS

    def _go_on(self) -> None:
        exchanges = self._exchanges_left
        for _ in range(min(len(exchanges), EXCHANGES_MAX)):
            self._apply_to_exchange(exchanges.pop())
        if exchanges:
            return
        left = self._left
        for _ in range(min(len(left), QUEUES_MAX)):
            queue = left.pop()
            if not queue.is_deleted:
                self._apply(queue)
        self._keepers.run()
        if not left:
            told = self._done
            self._done = []
            for done in told:
                done()
