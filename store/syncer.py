"""Who waits for what to be durable.

A sync covers everything written before it, so it costs the same for one waiter as
for thousands: they leave a token and a range of their own numbers here and are
told together. What a range means is its owner's business.

A range is *attached* to a batch when that batch holds all it waits for. It needs
that only if a later batch is refused by a full disk: then it is durable all the
same, while the ranges behind it are not.
"""

from typing import Final, Generic, TypeVar, final

from mypy_extensions import i64

T = TypeVar("T")

_UNATTACHED: Final = 0


@final
class Waiting(Generic[T]):
    """Somebody who waits, and the range of numbers to be told about."""

    __slots__ = ("batch", "first", "last", "token")

    def __init__(self, token: T, first: i64, last: i64) -> None:
        self.token = token
        self.first = first
        self.last = last
        self.batch: i64 = _UNATTACHED


@final
class SyncResult(Generic[T]):
    """What came of a sync.

    `durable` may be confirmed, `refused` must be nacked. `lost` are (queue, seq) of
    new messages that the disk refused and that were not settled meanwhile,
    `lost_numbers` their append numbers; `kept` are the tokens of moves that did not
    take place. `fatal` is the failed sync after which
    nothing is certain but what was durable before.
    """

    __slots__ = (
        "disk_full",
        "durable",
        "fatal",
        "kept",
        "lost",
        "lost_numbers",
        "refused",
    )

    def __init__(self) -> None:
        self.durable: list[Waiting[T]] = []
        self.refused: list[Waiting[T]] = []
        self.lost: list[tuple[int, int]] = []
        self.lost_numbers: list[int] = []
        self.kept: list[object] = []
        self.fatal: BaseException | None = None
        self.disk_full = False


@final
class Waiters(Generic[T]):
    """Everybody who waits and was not taken into a sync yet.

    The count goes on until they are told: it has those in a sync, too.
    """

    __slots__ = ("_attached", "_latest", "_waiting", "count")

    def __init__(self) -> None:
        # Numbers that wait, in all ranges.
        self.count: i64 = 0
        self._attached: list[Waiting[T]] = []
        self._waiting: list[Waiting[T]] = []
        # Each token's newest range: what adjoins it is added to it.
        self._latest: dict[T, Waiting[T]] = {}

    @property
    def is_empty(self) -> bool:
        """Say whether nobody waits."""
        return not self._waiting and not self._attached

    def add(self, token: T, first: i64, last: i64) -> None:
        """Let `token` wait with a range of its numbers."""
        self.count += last - first + 1
        latest = self._latest.get(token)
        if latest is not None and latest.last + 1 == first:
            latest.last = last
            return
        waiting = Waiting(token, first, last)
        self._latest[token] = waiting
        self._waiting.append(waiting)

    def attach(self, batch: i64) -> None:
        """Note that everything waited for so far is in batches up to this one."""
        for waiting in self._waiting:
            waiting.batch = batch
        self._attached.extend(self._waiting)
        self._waiting = []
        self._latest = {}

    def take(self) -> list[Waiting[T]]:
        """Return everybody and wait for nobody."""
        taken = self._attached + self._waiting
        self._attached = []
        self._waiting = []
        self._latest = {}
        return taken

    def note_told(self, told: list[Waiting[T]]) -> None:
        """These were taken, and are being told now."""
        for waiting in told:
            self.count -= waiting.last - waiting.first + 1


def divide(
    waiting: list[Waiting[T]], refused_batch: i64, result: SyncResult[T]
) -> None:
    """Share out who is durable and who is refused when a batch was refused.

    All batches before the refused one are whole and durable.
    """
    for one in waiting:
        if _UNATTACHED < one.batch < refused_batch:
            result.durable.append(one)
        else:
            result.refused.append(one)
