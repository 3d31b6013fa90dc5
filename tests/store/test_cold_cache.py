"""Caches by bytes, and files that are open at most so many."""

from store.cold_cache import BytesCache, Descriptors
from tests.support.cold_log import ColdFileSystem


def test_a_cache_drops_what_was_used_longest_ago() -> None:
    cache = BytesCache(3 * 1200)
    for key in (1, 2, 3):
        cache.put(key, bytes(1000))
    assert cache.get(1) is not None
    cache.put(4, bytes(1000))
    assert cache.get(2) is None
    assert [cache.get(key) is not None for key in (1, 3, 4)] == [True, True, True]


def test_what_was_not_asked_for_again_goes_in_its_next_turn() -> None:
    cache = BytesCache(2 * 1200)
    for key in (1, 2):
        cache.put(key, bytes(1000))
        assert cache.get(key) is not None
    cache.put(3, bytes(1000))
    assert [cache.get(key) is not None for key in (1, 2)] == [False, True]
    cache.put(4, bytes(1000))
    assert [cache.get(key) is not None for key in (2, 3, 4)] == [True, False, True]
    assert cache.size < 2 * 1300


def test_a_cache_keeps_what_alone_is_more_than_its_room() -> None:
    cache = BytesCache(500)
    cache.put(1, bytes(100))
    cache.put(2, bytes(1000))
    assert cache.get(1) is None
    kept = cache.get(2)
    assert kept is not None
    assert kept.data == bytes(1000)


def test_a_cache_counts_what_it_holds() -> None:
    cache = BytesCache(10_000)
    cache.put(1, bytes(1000))
    size = cache.size
    cache.put(1, bytes(500))
    assert cache.size == size - 500
    cache.drop(1)
    cache.drop(1)
    assert cache.size == 0


def test_a_cache_that_is_cleared_keeps_nothing() -> None:
    cache = BytesCache(10_000)
    cache.put(1, bytes(1000))
    cache.put(2, bytes(1000))
    cache.clear()
    assert cache.size == 0
    assert cache.get(1) is None


def test_descriptors_close_the_file_used_longest_ago() -> None:
    filesystem = ColdFileSystem()
    paths = [f"/data/{i}" for i in range(4)]
    for path in paths:
        descriptor = filesystem.create(path)
        filesystem.write(descriptor, [path.encode()], 0)
        filesystem.close(descriptor)
    descriptors = Descriptors(filesystem, 3)
    for path in [*paths[:3], paths[0], paths[3]]:
        descriptor = descriptors.find(path)
        assert filesystem.read(descriptor, 99, 0) == path.encode()
    assert [filesystem.is_open(path) for path in paths] == [True, False, True, True]
    assert descriptors.count == 3
    descriptors.close(paths[1])
    descriptors.close_all()
    assert not any(filesystem.is_open(path) for path in paths)
