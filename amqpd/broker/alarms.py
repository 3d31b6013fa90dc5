"""Resource alarms: memory and disk run short, so publishers have to wait.

    what was measured > limits > memory alarm, disk alarm > is_on > who publishes waits

A limit is a number of octets or a share of the memory that there is, and may be changed
at any time; it is compared at once with what was measured last. A limit of 0 for memory
is always exceeded, which is how people try out what their publishers do.

An alarm that was measured stays for a second at least: memory that is let go of comes
back in waves, and publishers would be blocked and let go with each.

Nothing is measured here, and what waiting means is known to the connections: they ask
`is_on` once a read, and leave themselves here to be told when it is over.
"""

import logging
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.ports import AlarmWaiter

logger = logging.getLogger("amqpd.alarms")

MEMORY: Final = "memory"
DISK: Final = "disk"

#: RabbitMQ's limits, where nobody says: a share of memory, octets on the disk.
MEMORY_WATERMARK: Final = 0.6
DISK_FREE_LIMIT: Final = 50_000_000

#: What connections may park together. Under a memory alarm it is a share of the limit:
#: it comes on top of that, and could keep the alarm on that it waits for.
PARKED_MAX: Final[i64] = 64 * 1024 * 1024
PARKED_LEAST: Final[i64] = 2 * 1024 * 1024
PARKED_SHARE: Final = 32
#: The alarm is raised ahead of time by what is to come until the next look, if it goes
#: on like that, but by no more than such a part of the limit.
AHEAD_SHARE: Final = 20

#: How long an alarm lasts at least, unless a limit is changed.
DURATION_MIN_MS: Final = 1_000


@final
class ResourceLimit:
    """Octets, or a share of the memory that there is (of any size: 2 is twice that)."""

    def __init__(self, octets: int | None, share: float = 0.0) -> None:
        # None: the share says it.
        self.octets = octets
        self.share = share

    def of(self, memory_total: int) -> int:
        """The limit in octets."""
        if self.octets is not None:
            return self.octets
        return int(self.share * memory_total)


@final
class Alarms:
    """The limits, what was measured, and which alarms are on."""

    def __init__(self) -> None:
        # Whether publishers wait.
        self.is_on = False
        # What all connections have parked.
        self.parked_size: i64 = 0
        self.memory_total = 0
        self.memory_watermark = ResourceLimit(None, MEMORY_WATERMARK)
        self.disk_free_limit = ResourceLimit(DISK_FREE_LIMIT)
        # Clients are turned away; this stops nobody who is connected.
        self.is_out_of_descriptors = False
        # None: nobody has measured yet.
        self.memory_used: int | None = None
        self.disk_free: int | None = None
        self._memory_growth = 0
        # Told of each change: (resource, whether it is set).
        self.on_change: Callable[[str, bool], None] | None = None
        self._since_ms: dict[str, int] = {}
        self._now_ms = 0
        # In order, and each once.
        self._waiting: dict[AlarmWaiter, None] = {}
        # What all connections may park.
        self.parked_max: i64 = PARKED_MAX

    # -- what there is --------------------------------------------------------

    @property
    def memory_limit(self) -> int:
        """So much may the process have resident."""
        return self.memory_watermark.of(self.memory_total)

    @property
    def disk_limit(self) -> int:
        """So much must be free on the disk."""
        return self.disk_free_limit.of(self.memory_total)

    def has(self, resource: str) -> bool:
        """Whether the alarm of a resource is on."""
        return resource in self._since_ms

    def resources(self) -> list[str]:
        """What is short; memory first."""
        return [resource for resource in (MEMORY, DISK) if self.has(resource)]

    @property
    def reason(self) -> str:
        """What connection.blocked says."""
        return "low on " + " & ".join(self.resources())

    # -- what changes ---------------------------------------------------------

    def on_measured(
        self, memory_used: int, disk_free: int, now_ms: int, memory_growth: int = 0
    ) -> None:
        """Compare what is used and free now with the limits.

        So much more memory may be used by the time of the next look.
        """
        self.memory_used = memory_used
        self._memory_growth = memory_growth
        self.disk_free = disk_free
        self._now_ms = now_ms
        self._look(DURATION_MIN_MS)

    def set_memory_watermark(self, limit: ResourceLimit) -> None:
        """Change how much memory may be used; holds at once."""
        self.memory_watermark = limit
        self._look(0)

    def set_disk_free_limit(self, limit: ResourceLimit) -> None:
        """Change how much of the disk must be free; holds at once."""
        self.disk_free_limit = limit
        self._look(0)

    def _look(self, duration_min_ms: int) -> None:
        used, free = self.memory_used, self.disk_free
        if used is not None:
            limit = self.memory_limit
            ahead = min(self._memory_growth, limit // AHEAD_SHARE)
            self._set(MEMORY, used + ahead > limit, duration_min_ms)
        if free is not None:
            self._set(DISK, free < self.disk_limit, duration_min_ms)
        self.is_on = bool(self._since_ms)
        self.parked_max = PARKED_MAX
        if self.has(MEMORY):
            share: i64 = min(self.memory_limit // PARKED_SHARE, int(PARKED_MAX))
            self.parked_max = max(PARKED_LEAST, share)
        if not self.is_on and self._waiting:
            waiting = list(self._waiting)
            self._waiting.clear()
            for waiter in waiting:
                try:
                    waiter.on_alarms_over()
                except Exception:
                    # Ours to mend; but the others may not wait for ever.
                    logger.exception("a publisher cannot go on")

    def _set(self, resource: str, is_short: bool, duration_min_ms: int) -> None:
        since_ms = self._since_ms.get(resource)
        if is_short and since_ms is None:
            self._since_ms[resource] = self._now_ms
            logger.warning("%s", self._described(resource))
        elif (
            not is_short
            and since_ms is not None
            and self._now_ms - since_ms >= duration_min_ms
        ):
            del self._since_ms[resource]
            logger.warning("%s alarm is over: publishers go on", resource)
        else:
            return
        if self.on_change is not None:
            self.on_change(resource, is_short)

    def _described(self, resource: str) -> str:
        what = f"{self.memory_used} octets of memory are used, the limit is"
        limit = self.memory_limit
        if resource == DISK:
            what = f"{self.disk_free} octets are free on the disk, fewer than"
            limit = self.disk_limit
        return f"{resource} alarm: {what} {limit}; publishers wait"

    # -- who waits ------------------------------------------------------------

    def wait(self, waiter: AlarmWaiter) -> None:
        """Tell the waiter when no alarm is on any more; once."""
        self._waiting[waiter] = None

    @property
    def waiting_count(self) -> int:
        """How many are to be told."""
        return len(self._waiting)

    def forget(self, waiter: AlarmWaiter) -> None:
        """The waiter is gone."""
        self._waiting.pop(waiter, None)
