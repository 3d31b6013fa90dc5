"""Who waits: ranges merge, everybody is told once."""

from store.syncer import SyncResult, Waiters, Waiting, divide


def told(waiting: list[Waiting[str]]) -> list[tuple[str, int, int]]:
    return [(one.token, int(one.first), int(one.last)) for one in waiting]


def test_adjoining_ranges_of_a_token_are_merged() -> None:
    waiters: Waiters[str] = Waiters()
    waiters.add("a", 1, 3)
    waiters.add("b", 1, 1)
    waiters.add("a", 4, 4)
    assert told(waiters.take()) == [("a", 1, 4), ("b", 1, 1)]


def test_ranges_with_a_gap_are_not_merged() -> None:
    waiters: Waiters[str] = Waiters()
    waiters.add("a", 1, 1)
    waiters.add("a", 3, 3)
    assert told(waiters.take()) == [("a", 1, 1), ("a", 3, 3)]


def test_taking_leaves_nobody() -> None:
    waiters: Waiters[str] = Waiters()
    assert waiters.is_empty
    waiters.add("a", 1, 1)
    assert not waiters.is_empty
    waiters.take()
    assert waiters.is_empty
    waiters.add("a", 2, 2)
    assert told(waiters.take()) == [("a", 2, 2)]


def test_what_is_attached_does_not_grow() -> None:
    waiters: Waiters[str] = Waiters()
    waiters.add("a", 1, 1)
    waiters.attach(5)
    waiters.add("a", 2, 2)
    assert not waiters.is_empty
    assert told(waiters.take()) == [("a", 1, 1), ("a", 2, 2)]


def test_a_refused_batch_refuses_all_but_those_attached_before_it() -> None:
    waiters: Waiters[str] = Waiters()
    for number in (1, 2, 3):
        waiters.add("a", number * 10, number * 10)
        waiters.attach(number)
    waiters.add("a", 40, 40)
    result: SyncResult[str] = SyncResult()
    divide(waiters.take(), 2, result)
    assert told(result.durable) == [("a", 10, 10)]
    assert told(result.refused) == [("a", 20, 20), ("a", 30, 30), ("a", 40, 40)]


def test_who_was_taken_is_counted_until_told() -> None:
    waiters: Waiters[str] = Waiters()
    waiters.add("a", 1, 3)
    waiters.add("a", 4, 4)
    waiters.add("b", 0, 0)
    taken = waiters.take()
    waiters.add("a", 5, 5)
    assert waiters.count == 6
    waiters.note_told(taken)
    assert waiters.count == 1
