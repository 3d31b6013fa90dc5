"""When Python's garbage collector looks at everything.

A full collection visits all that connections, channels and queues are made of: 15 ms
at a thousand of each, in which nobody is served. (What is ready in queues is hidden
from it, see `broker.queues.reference_lines`; what is unacked is not.) There is little
to find: a connection that ends takes itself apart (`Connection.lose_socket`), but a
deleted queue is a circle, and so is asyncio's transport. So the collector's own full
rounds are switched off; the young generations, which are small, stay on. The sweep says
when a full round is due instead, and the next turn makes it in place of its work. The
longer it stops everybody the rarer it is, by the square: where clients and queues come
and go it is short, and what they leave is found before there is much of it. That keeps
memory flat, too, since what they leave lies between what lives: where five hundred
clients a second came and went, rounds every ten seconds had the process grow by 12 MB,
and rounds every second by one. But for one of 2.5 ms every second one message in 400
waits, so it is five. Where nothing comes, nothing is looked for.

Where hundreds of clients and queues stay, a round finds nothing and stops everybody all
the same. So there it waits until a part as large as a tenth of them has gone: sockets,
channels (some had queues for replies, or ended by an error) and queues. What else
there is, a request over HTTP here and there, is found after twenty such pauses, when
nobody has work, and when memory grows short.
"""

import gc
import time
from collections import deque
from collections.abc import Callable
from typing import Final, final

# Young objects as Python does; all objects never.
THRESHOLDS: Final = (700, 10, 1_000_000)
PAUSE_SECONDS_MIN: Final = 5.0
# At most a round of 5 ms every 5 s, one of 8 ms every 10 s, one of 20 ms every minute,
# one of 0.3 s every four hours.
LONG_ROUND_SECONDS: Final = 0.02
LONG_ROUND_PAUSE_SECONDS: Final = 60.0
ROUNDS_LATELY: Final = 3
# Of the clients and queues beyond so many (two hundred of each take 3 ms) such a part
# must have gone. If nobody goes, a pause is so many times as long.
FEW: Final = 400
GONE_PART: Final = 10
UNSEEN_PAUSES: Final = 20


@final
class GarbageRounds:
    """Decides when the next full collection is due, and makes it."""

    def __init__(
        self,
        now_s: float,
        population: Callable[[], tuple[int, int]],
        counts: Callable[[], tuple[int, int, int]] = gc.get_count,
    ) -> None:
        # How many there are that may leave something, and how many have gone so far.
        self._population = population
        self._gone = 0
        self._counts = counts
        self.due_s = now_s + PAUSE_SECONDS_MIN
        # From then on it is due although nobody has gone.
        self._late_s = now_s + UNSEEN_PAUSES * PAUSE_SECONDS_MIN
        #: Whether one is to be made now.
        self.is_due = False
        self._lately_s: deque[float] = deque(maxlen=ROUNDS_LATELY)

    def start(self) -> None:
        """Take what lives as long as the process out of sight; full rounds by us."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)

    def on_time(self, now_s: float) -> bool:
        """Look whether a full round is due now, and return that.

        It is not as long as so few objects have come that the collector has not looked
        at them by itself, nor while there are many clients and queues that stay.
        """
        self.is_due = (
            now_s >= self.due_s
            and any(self._counts()[1:])
            and (now_s >= self._late_s or self._have_enough_gone())
        )
        return self.is_due

    def _have_enough_gone(self) -> bool:
        alive, gone = self._population()
        return FEW + GONE_PART * (gone - self._gone) >= alive

    def hasten(self, now_s: float) -> None:
        """Nobody has work: one that would be due before long is due now."""
        if self.due_s <= now_s + PAUSE_SECONDS_MIN:
            self.demand(now_s)

    def demand(self, now_s: float) -> None:
        """One is due now, if anything can be found."""
        if any(self._counts()[1:]):
            self.due_s = self._late_s = now_s

    def make_round(self, now_s: float) -> None:
        """Make a full round."""
        self.is_due = False
        _, self._gone = self._population()
        # Not the clock on the wall, which others on this machine hold up.
        started = time.thread_time()
        gc.collect()
        self.note(now_s, time.thread_time() - started)

    def note(self, now_s: float, seconds: float) -> None:
        """A round took so long: set when the next is due.

        Others on the machine empty the processor's caches, too, so that a round now and
        then takes many times as long as the ones before: the shortest of a few counts.
        """
        self._lately_s.append(seconds)
        pause = pause_after(min(self._lately_s))
        self.due_s = now_s + pause
        self._late_s = now_s + UNSEEN_PAUSES * pause


def pause_after(seconds: float) -> float:
    """Return how many seconds lie between a round that took so long and the next."""
    times_long = seconds / LONG_ROUND_SECONDS
    return max(PAUSE_SECONDS_MIN, LONG_ROUND_PAUSE_SECONDS * times_long * times_long)


def forget_frozen() -> None:
    """Let go of what was to live as long as the process, and does not."""
    gc.unfreeze()
    gc.collect()
