"""What the store has done since it was opened: plain counters, for whoever shows them.

They only ever rise. Seconds are measured by whoever runs the steps, since nothing in
the store reads a clock.
"""

from typing import Final, final

from mypy_extensions import i64

# Upper bounds of the buckets of sync times, in seconds; one more is for all above.
SYNC_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0)
_INFINITY: Final = float("inf")


@final
class StoreStatistics:
    """Counters of one store."""

    __slots__ = (
        "bytes_written",
        "checkpoints",
        "cold_bytes",
        "cold_loads",
        "elided",
        "merged_bytes",
        "merges",
        "removed_segments",
        "sync_buckets",
        "sync_seconds",
        "syncs",
    )

    def __init__(self) -> None:
        self.bytes_written: i64 = 0
        self.syncs: i64 = 0
        self.sync_seconds = 0.0
        self.sync_buckets: list[int] = [0] * (len(SYNC_BUCKETS) + 1)
        # References that were settled before they were written.
        self.elided: i64 = 0
        self.merges: i64 = 0
        self.merged_bytes: i64 = 0
        self.removed_segments: i64 = 0
        self.checkpoints: i64 = 0
        self.cold_loads: i64 = 0
        self.cold_bytes: i64 = 0

    def observe_sync(self, seconds: float) -> None:
        """Note how long a sync took."""
        self.sync_seconds += seconds
        at = 0
        while at < len(SYNC_BUCKETS) and seconds > SYNC_BUCKETS[at]:
            at += 1
        self.sync_buckets[at] += 1

    def syncs_within(self) -> list[tuple[float, int]]:
        """Return how many syncs took at most so long; the last bound is infinity."""
        within: list[tuple[float, int]] = []
        count = 0
        for at in range(len(self.sync_buckets)):
            count += self.sync_buckets[at]
            bound = SYNC_BUCKETS[at] if at < len(SYNC_BUCKETS) else _INFINITY
            within.append((bound, count))
        return within
