"""What the process has and what is left: memory, disk, descriptors. Asked, not told.

    a turn, or a sweep  ->  resident set, free space  ->  broker.alarms

A look costs some ten microseconds. While something happens it is taken every few
hundredths of a second, since a flood fills memory faster than any alarm of a slower
clock; on a broker that is idle it is taken by the sweep.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from amqpd.broker.alarms import MEMORY
from amqpd.broker.broker import Broker
from amqpd.process import (
    descriptors_max,
    free_space,
    give_back_memory,
    open_descriptors,
    resident_size,
)

logger = logging.getLogger("amqpd.resources")

LOOK_MS: Final = 20
#: Near the limit it is taken every turn or two: ten producers fill so much in 100 ms.
NEAR_MS: Final = 2
NEAR_SIZE: Final = 64 * 1024 * 1024
#: From this part of the limit on clients are read and sent less at a time: what
#: hundreds of them send together is read before anybody looks again.
NEARLY_SHORT: Final = 0.75
#: Descriptors that clients do not get: the logs must be able to open files.
RESERVED_MAX: Final = 100
#: How often a shortage of descriptors is looked at, and told.
SHORTAGE_MS: Final = 1_000
#: While memory is short: how often what was freed is given back to the system.
TRIM_MS: Final = 500


@final
class ResourceWatch:
    """Tells the broker's alarms what there is."""

    def __init__(self, broker: Broker, data_dir: Path) -> None:
        self._alarms = broker.alarms
        self._budgets = broker.pager.budgets
        self._data_dir = data_dir
        self._look_ms = 0
        # At the last look.
        self._used = 0
        self._trim_ms = 0
        self._shortage_ms = 0
        self._says_no = False
        #: Whether the alarm is on, as of the last look.
        self.is_memory_short = False
        #: Whether there is little left until it comes.
        self.is_memory_nearly_short = False
        #: Who is to know when one of the two has changed.
        self.on_shortage: Callable[[], None] = lambda: None
        most = descriptors_max()
        #: So many descriptors may be open when a client comes.
        self.descriptors_for_clients = most - min(RESERVED_MAX, most // 4)

    def look(self, now_ms: int) -> bool:
        """Look if it is time to; return whether an alarm has come or gone."""
        if now_ms < self._look_ms:
            return False
        self._look_ms = now_ms + LOOK_MS
        alarms = self._alarms
        if alarms.is_out_of_descriptors and now_ms >= self._shortage_ms:
            self._shortage_ms = now_ms + SHORTAGE_MS
            alarms.is_out_of_descriptors = (
                open_descriptors() >= self.descriptors_for_clients
            )
        before = alarms.resources()
        used = resident_size()
        growth = 0
        is_near = used + NEAR_SIZE > alarms.memory_limit
        if is_near:
            self._look_ms = now_ms + NEAR_MS
            growth = used - (self._used or used)
        self._used = used
        alarms.on_measured(used, self._disk_free(), now_ms, max(0, growth))
        is_short = alarms.has(MEMORY)
        is_nearly = is_near or used > NEARLY_SHORT * alarms.memory_limit
        before_now = self.is_memory_nearly_short, self.is_memory_short
        if (is_nearly, is_short) != before_now:
            self.is_memory_nearly_short, self.is_memory_short = is_nearly, is_short
            self.on_shortage()
        self._budgets.fit(alarms.memory_limit, is_short)
        if is_short and now_ms >= self._trim_ms:
            self._trim_ms = now_ms + TRIM_MS
            give_back_memory()
        return alarms.resources() != before

    def admits(self, descriptor: int, now_ms: int) -> bool:
        """Whether a client may stay whose socket was given this descriptor.

        A new descriptor is the lowest that is free, so at least as many are open.
        """
        if descriptor < self.descriptors_for_clients:
            return True
        if now_ms >= self._shortage_ms:
            self._shortage_ms = now_ms + SHORTAGE_MS
            logger.error(
                "clients are turned away: %d file descriptors are open, and the rest "
                "of %d is kept for files; raise the limit (ulimit -n, LimitNOFILE)",
                descriptor,
                descriptors_max(),
            )
        self._alarms.is_out_of_descriptors = True
        return False

    def _disk_free(self) -> int:
        try:
            return free_space(self._data_dir)
        except OSError as error:
            if not self._says_no:
                self._says_no = True
                logger.warning("free space of %s: %s", self._data_dir, error)
            # As it was: a disk that does not answer says nothing of its size.
            return self._alarms.disk_free or 1 << 62
