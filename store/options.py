"""The few numbers of a store that a user or a test may want to change."""

from dataclasses import dataclass
from typing import Final

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Sizes of the log's files, and when it is looked after.

    A segment may exceed `segment_size` by one batch. The reserve is `reserve_segments`
    segments' worth of allocated blocks, given back when the disk is full. With
    `confirms_early` who waits is told when the page cache has it.

    Segments are merged when garbage makes up more than `garbage_ratio` of at least
    `garbage_segments` of them. A checkpoint is due after `checkpoint_seals` segments or
    `checkpoint_ms` of writes. `cold_cache_size` is for blocks of segments that were
    read back: a thousand queues that are drained at once share them, and read the log
    once.
    """

    segment_size: int = 16 * MIB
    reserve_segments: int = 2
    reserve_probe_ms: int = 1000
    confirms_early: bool = False
    garbage_ratio: float = 0.5
    garbage_segments: int = 3
    checkpoint_seals: int = 64
    checkpoint_ms: int = 10_000
    cold_cache_size: int = 8 * MIB

    @property
    def reserve_size(self) -> int:
        """Return how many bytes the reserve holds."""
        return self.segment_size * self.reserve_segments
