"""The store against a dictionary: any events, any crashes, the same messages.

The machine does what a broker does, in any order and any pipelining of steps, on a
file system that loses what was not synced; after every crash the store is compared
with the model of `StoreDriver`.
"""

import errno
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from store.seq_ranges import SeqRanges
from tests.support.memory_filesystem import Fault, MemoryFileSystem
from tests.support.store_driver import StoreDriver

QUEUE = st.integers(1, 3)
EVENTS = st.one_of(
    st.tuples(
        st.just("append"),
        st.lists(QUEUE, min_size=1, max_size=3, unique=True),
        st.sampled_from((1, 50, 900, 6000)),
    ),
    st.tuples(st.just("settle"), QUEUE, st.lists(st.integers(0, 40), max_size=6)),
    st.tuples(st.just("purge"), QUEUE, st.integers(1, 40)),
    st.tuples(st.just("read"), QUEUE),
    st.tuples(st.just("maintain"), st.integers(1, 12)),
    st.tuples(st.just("deliver"), QUEUE),
    st.tuples(st.just("return"), QUEUE, st.integers(0, 40), st.integers(1, 5)),
    st.tuples(st.just("begin"), st.booleans()),
    st.tuples(st.just("finish")),
    st.tuples(st.just("tick")),
    st.tuples(st.just("refuse"), st.integers(0, 200)),
    st.tuples(st.just("kill")),
    st.tuples(st.just("power"), st.one_of(st.booleans(), st.integers(0, 1 << 16))),
    st.tuples(st.just("stop")),
)
Event = tuple[object, ...]


def crash(driver: StoreDriver, event: Event) -> None:
    """Stop in one of the ways there are, and start again."""
    if event[0] == "power":
        choice = event[1]
        if isinstance(choice, bool):
            driver.filesystem.power_cut(choice)
        else:
            driver.filesystem.power_cut(random.Random(str(choice)))
    else:
        driver.filesystem.restart()
    driver.reopen()


def facts(driver: StoreDriver, event: Event) -> None:
    """Settle, purge, deliver or return what the numbers of the event point at."""
    queue_id = event[1]
    assert isinstance(queue_id, int)
    live = driver.live(queue_id)
    if event[0] == "settle" and isinstance(event[2], list):
        for key in {live[i % len(live)] for i in event[2] if live}:
            driver.settle(key)
    elif event[0] == "purge" and isinstance(event[2], int):
        driver.settle_cold(queue_id, event[2])
    elif event[0] == "read":
        driver.check_cold(queue_id)
    elif event[0] == "deliver":
        driver.deliver(queue_id)
    elif live and isinstance(event[2], int) and isinstance(event[3], int):
        driver.deliver(queue_id)
        driver.give_back(live[event[2] % len(live)], event[3])


def steps(driver: StoreDriver, event: Event) -> None:
    """Begin, finish, let time pass, or let the next write fail."""
    if event[0] == "begin":
        if event[1]:
            driver.wait()
        driver.begin(bool(event[1]))
    elif event[0] == "finish":
        driver.finish()
    elif event[0] == "tick":
        driver.tick()
    elif event[0] == "maintain" and isinstance(event[1], int):
        driver.now_ms += 300
        for _ in range(event[1]):
            driver.maintain()
    elif isinstance(event[1], int):
        driver.filesystem.fault = Fault(1, errno.ENOSPC, "write", event[1])


def apply(driver: StoreDriver, event: Event) -> None:
    if event[0] == "append":
        queues, size = event[1], event[2]
        assert isinstance(queues, list)
        assert isinstance(size, int)
        driver.append(*queues, size=size)
    elif event[0] in ("begin", "finish", "tick", "maintain", "refuse"):
        steps(driver, event)
    elif event[0] in ("kill", "power"):
        crash(driver, event)
    elif event[0] == "stop":
        while driver.flights:
            driver.finish()
        driver.stop()
        driver.filesystem.power_cut(False)
        driver.reopen()
    else:
        facts(driver, event)


@settings(max_examples=150, deadline=None)
@given(st.lists(EVENTS, max_size=60))
def test_the_store_agrees_with_a_dictionary(events: list[Event]) -> None:
    driver = StoreDriver(MemoryFileSystem())
    driver.open()
    for event in events:
        apply(driver, event)
    for flight in list(driver.flights):
        assert flight is driver.flights[0]
        driver.finish()
    driver.tick()
    for key, entry in driver.entries.items():
        assert entry.is_durable or entry.is_settled or entry.is_lost, key
    driver.filesystem.power_cut(False)
    driver.reopen()


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("arcd"), st.integers(0, 30), st.integers(0, 5)),
        max_size=40,
    )
)
def test_seq_ranges_agree_with_a_set(events: list[tuple[str, int, int]]) -> None:
    ranges, model = SeqRanges(), set[int]()
    for kind, seq, more in events:
        if kind == "a":
            ranges.add(seq)
            model.add(seq)
        elif kind == "r":
            ranges.add_range(seq, seq + more)
            model.update(range(seq, seq + more + 1))
        elif kind == "c":
            assert (seq in ranges) == (seq in model)
        else:
            assert ranges.discard(seq) == (seq in model)
            model.discard(seq)
    assert ranges.is_empty == (not model)
    taken = ranges.take()
    found: list[int] = []
    for first, last in zip(taken.firsts, taken.lasts, strict=True):
        assert not found or first > found[-1] + 1
        found.extend(range(first, last + 1))
    assert found == sorted(model)
