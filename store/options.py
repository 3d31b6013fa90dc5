"""The few numbers of a store that a user or a test may want to change."""

from dataclasses import dataclass
from typing import Final

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Sizes of the log's files and the pace at which a full disk is probed.

    A segment may exceed `segment_size` by one batch. The reserve is `reserve_segments`
    segments' worth of allocated blocks, given back when the disk is full.
    """

    segment_size: int = 16 * MIB
    reserve_segments: int = 2
    reserve_probe_ms: int = 1000

    @property
    def reserve_size(self) -> int:
        """Return how many bytes the reserve holds."""
        return self.segment_size * self.reserve_segments
