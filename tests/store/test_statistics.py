"""Counters: sync times by their bounds."""

import math

from store.statistics import SYNC_BUCKETS, StoreStatistics


def test_a_sync_is_in_every_bucket_that_it_is_not_longer_than() -> None:
    statistics = StoreStatistics()
    for seconds in (0.0005, 0.002, 7.0):
        statistics.observe_sync(seconds)
    within = dict(statistics.syncs_within())
    assert list(within) == [*SYNC_BUCKETS, math.inf]
    assert (within[0.0005], within[0.001], within[0.0025]) == (1, 1, 2)
    assert (within[1.0], within[math.inf]) == (2, 3)
    assert statistics.sync_seconds == 7.0025
