"""Facts of queues: what becomes a record, and what a refused batch carries on."""

from store import record
from store.batch import HEADER_SIZE, TRAILER_SIZE, BatchWriter
from store.index import Index
from store.queue_facts import BegunFacts, FactsTable, QueueFacts
from store.record import Delivered, Record, Returned, Settle, read_record
from store.segment_index import SegmentIndex


def writer() -> BatchWriter:
    return BatchWriter(1, 1, 1, 64)


def records(written: BatchWriter) -> list[Record]:
    data = b"".join(written.finish())
    found: list[Record] = []
    offset = HEADER_SIZE
    while offset < len(data) - TRAILER_SIZE:
        one = read_record(data, offset)
        assert one is not None
        found.append(one)
        offset += record.read_u32(data, offset)
    return found


def begun_and_records(facts: QueueFacts) -> tuple[BegunFacts, list[Record]]:
    out = writer()
    begun = facts.begin(out)
    return begun, records(out)


def settled_in(found: list[Record]) -> list[tuple[int, int]]:
    return [
        pair
        for one in found
        if isinstance(one, Settle)
        for pair in zip(one.settled.firsts, one.settled.lasts, strict=True)
    ]


def test_a_queue_without_facts_writes_nothing() -> None:
    facts = QueueFacts(7, -1)
    assert facts.is_empty
    assert begun_and_records(facts)[1] == []


def test_settles_become_one_record_of_ranges() -> None:
    facts = QueueFacts(7, 9)
    for seq in (1, 2, 5):
        facts.settle(seq)
    assert not facts.is_empty
    assert settled_in(begun_and_records(facts)[1]) == [(1, 2), (5, 5)]
    assert facts.is_empty


def test_a_delivery_of_nothing_that_is_written_leaves_no_record() -> None:
    facts = QueueFacts(7, -1)
    facts.note_delivered(0, 5)
    assert facts.is_empty
    assert begun_and_records(facts)[1] == []


def test_a_delivery_is_written_up_to_what_is_written_and_once() -> None:
    facts = QueueFacts(7, -1)
    facts.note_delivered(0, 5)
    facts.note_written(2, 64, 100)
    facts.note_written(3, 164, 100)
    _, found = begun_and_records(facts)
    assert [(one.lane, one.upper_seq) for one in found if isinstance(one, Delivered)]
    assert isinstance(found[0], Delivered)
    assert found[0].upper_seq == 3
    facts.note_delivered(0, 3)
    assert facts.is_empty
    assert begun_and_records(facts)[1] == []


def test_every_lane_has_its_own_delivered_record() -> None:
    facts = QueueFacts(7, 9)
    facts.note_delivered(0, 5)
    facts.note_delivered(4, 7)
    assert not facts.is_empty
    _, found = begun_and_records(facts)
    lanes = [(one.lane, one.upper_seq) for one in found if isinstance(one, Delivered)]
    assert lanes == [(0, 5), (4, 7)]


def test_the_last_return_of_a_message_wins() -> None:
    facts = QueueFacts(7, 9)
    facts.note_returned(4, 1, 0)
    facts.note_returned(4, 2, 50)
    assert not facts.is_empty
    _, found = begun_and_records(facts)
    assert len(found) == 1
    assert isinstance(found[0], Returned)
    assert (found[0].delivery_count, found[0].not_before_ms) == (2, 50)


def test_a_settle_of_a_refused_message_is_no_fact() -> None:
    facts = QueueFacts(7, 9)
    facts.lose(5)
    assert facts.is_lost(5)
    assert not facts.is_lost(4)
    facts.settle(5)
    assert not facts.is_lost(5)
    assert facts.is_empty


def test_a_message_settled_before_it_was_refused_does_not_matter() -> None:
    facts = QueueFacts(7, 9)
    assert not facts.is_lost(5)
    facts.settle(5)
    facts.lose(5)
    assert not facts.is_lost(5)
    assert facts.is_empty


def test_a_settle_of_what_was_never_written_is_no_fact() -> None:
    facts = QueueFacts(7, 9)
    facts.settle(10)
    assert facts.is_empty


def test_two_refused_messages_are_both_lost() -> None:
    facts = QueueFacts(7, 9)
    facts.lose(5)
    facts.lose(7)
    assert (facts.is_lost(5), facts.is_lost(7)) == (True, True)


def test_refused_facts_are_carried_before_those_that_wait() -> None:
    facts = QueueFacts(7, 9)
    facts.settle(1)
    facts.note_delivered(0, 5)
    facts.note_returned(3, 1, 0)
    facts.note_returned(4, 1, 0)
    begun, _ = begun_and_records(facts)
    facts.settle(2)
    facts.note_delivered(0, 4)
    facts.note_returned(3, 2, 0)
    facts.carry(begun)
    _, found = begun_and_records(facts)
    assert settled_in(found) == [(1, 2)]
    assert [o.upper_seq for o in found if isinstance(o, Delivered)] == [5]
    returned = [(o.seq, o.delivery_count) for o in found if isinstance(o, Returned)]
    assert sorted(returned) == [(3, 2), (4, 1)]


def test_a_settled_range_ends_where_what_is_written_ends() -> None:
    facts = QueueFacts(7, 9)
    facts.settle_range(3, 12)
    assert settled_in(begun_and_records(facts)[1]) == [(3, 9)]


def test_all_of_a_range_are_settled_as_each_of_them_is() -> None:
    facts = QueueFacts(7, 9)
    facts.settle_all(3, 5)
    facts.settle_all(6, 12)
    facts.settle_all(11, 12)
    assert settled_in(begun_and_records(facts)[1]) == [(3, 9)]


def test_a_refused_message_in_a_range_that_is_settled_is_no_fact() -> None:
    facts = QueueFacts(7, 9)
    facts.lose(5)
    facts.settle_all(3, 12)
    assert not facts.is_lost(5)
    assert settled_in(begun_and_records(facts)[1]) == [(3, 4), (6, 9)]


def test_a_batch_tells_where_its_messages_lie_and_which_seqs_are_missing() -> None:
    facts = QueueFacts(7, -1)
    for seq, offset in ((4, 64), (5, 164), (9, 264)):
        facts.note_written(seq, offset, 100)
    begun, _ = begun_and_records(facts)
    assert (begun.first, begun.last, begun.written_count, begun.size) == (4, 9, 3, 300)
    assert begun.gaps is not None
    assert (begun.gaps.firsts, begun.gaps.lasts) == ([6], [8])
    assert begun.entries == b"".join(
        number.to_bytes(4) for number in (4, 64, 100, 5, 164, 100, 9, 264, 100)
    )
    facts.note_written(10, 400, 50)
    later, _ = begun_and_records(facts)
    assert (later.first, later.written_count, later.size) == (10, 1, 50)
    assert later.gaps is None


def test_the_index_of_the_segment_learns_what_a_batch_holds() -> None:
    facts = QueueFacts(7, 3)
    facts.note_written(4, 64, 100)
    facts.settle(2)
    facts.note_delivered(0, 2)
    facts.note_returned(3, 1, 0)
    begun, _ = begun_and_records(facts)
    segment = SegmentIndex(1, 1)
    begun.note_in(segment)
    share = segment.share(7)
    assert (share.first, share.last, share.count, share.size) == (4, 4, 1, 100)
    assert 2 in share.settled
    assert share.delivered == {0: 2}
    assert list(share.returned) == [3]


def test_the_index_of_all_learns_messages_then_settles() -> None:
    index = Index()
    facts = QueueFacts(7, -1)
    facts.note_written(1, 64, 100)
    facts.note_written(2, 164, 100)
    begun, _ = begun_and_records(facts)
    facts.settle(1)
    facts.note_delivered(0, 2)
    facts.note_returned(2, 1, 0)
    later, _ = begun_and_records(facts)
    begun.apply(index, 1)
    later.apply(index, 1)
    queue = index.queue(7)
    assert (queue.first_seq, queue.live_count) == (2, 1)
    assert queue.delivered == {0: 2}
    assert list(queue.returned) == [2]
    assert index.segment(1).references == 1


def test_facts_of_nothing_change_no_index() -> None:
    index = Index()
    BegunFacts(7).apply(index, 1)
    BegunFacts(7).note_in(SegmentIndex(1, 1))
    assert index.queue(7).live_count == 0


def adopted() -> FactsTable:
    """Queues 7 and 8 have written up to seq 9."""
    table = FactsTable()
    table.adopt(7, 9)
    table.adopt(8, 9)
    return table


def test_a_touched_queue_is_looked_at_once() -> None:
    table = adopted()
    table.touch(7).settle(1)
    table.touch(8).settle(1)
    table.touch(7).settle(2)
    assert table.has_any()
    assert len(table.begin(writer())) == 2
    assert table.touched == []


def test_queues_without_news_are_untouched_again() -> None:
    table = FactsTable()
    table.touch(7).note_delivered(0, 4)
    assert not table.has_any()
    assert table.touched == []
    table.touch(7).note_returned(1, 1, 0)
    assert table.has_any()


def test_an_adopted_queue_knows_what_is_written() -> None:
    table = FactsTable()
    table.adopt(7, 9)
    table.touch(7).note_delivered(0, 4)
    assert table.has_any()


def test_a_forgotten_queue_has_no_facts() -> None:
    table = adopted()
    table.touch(7).settle(1)
    table.touch(8).settle(1)
    table.touch(8)
    table.forget(7, 3)
    table.forget(8, 3)
    table.forget(9, 5)
    assert not table.has_any()
    assert set(table.forgotten) == {7, 8, 9}


def test_a_forgotten_queue_is_known_until_no_batch_can_name_it() -> None:
    table = FactsTable()
    for queue_id, batch in ((7, 3), (8, 3), (9, 5)):
        table.forget(queue_id, batch)
    table.clear_forgotten(2)
    assert set(table.forgotten) == {7, 8, 9}
    table.clear_forgotten(3)
    assert set(table.forgotten) == {9}
    table.clear_forgotten(5)
    assert not table.forgotten


def test_a_forgotten_queue_that_was_not_touched_is_forgotten() -> None:
    table = FactsTable()
    table.adopt(7, 9)
    table.forget(7, 0)
    assert table.touched == []


def test_facts_of_a_forgotten_queue_are_not_carried() -> None:
    table = adopted()
    table.touch(7).settle(1)
    table.touch(8).settle(1)
    begun = table.begin(writer())
    table.forget(7, 0)
    table.carry(begun)
    assert [facts.queue_id for facts in table.touched] == [8]


def test_losing_what_was_elided_or_forgotten_is_nothing() -> None:
    table = FactsTable()
    table.forget(7, 0)
    table.lose(7, 1)
    table.lose(-1, 1)
    assert not table.is_lost(7, 1)
    table.lose(8, 1)
    assert table.is_lost(8, 1)


def test_a_settle_of_a_forgotten_queue_is_not_taken_back() -> None:
    table = adopted()
    table.forget(7, 0)
    table.unsettle(7, 3)
    assert table.touched == []
