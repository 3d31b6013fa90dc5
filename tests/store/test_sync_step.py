"""Refused messages: lost in every queue that did not settle them meanwhile."""

from store.queue_facts import FactsTable
from store.segment_set import Reserve, SegmentSet
from store.statistics import StoreStatistics
from store.sync_step import Batch, Move, SyncStep, lose, tell_lost, undo_moves
from store.syncer import SyncResult
from store.waiting import WaitingMessage, WaitingMessages
from tests.support.memory_filesystem import MemoryFileSystem


def batch() -> Batch:
    """Number 5 in queues 1, 2 and 3; number 6 elided; number 7 in queue 1."""
    waiting = WaitingMessages(StoreStatistics())
    for seq in (1, 2, 3):
        waiting.append(WaitingMessage(b"", b"", None, 0, 0, 1, seq, 0))
        if seq == 1:
            waiting.add_destination(2, 10, 0)
            waiting.add_destination(3, 20, 0)
    waiting.settle(2, 1)
    one = Batch(1, 1, 5)
    one.messages = waiting.take()
    return one


def test_lost_messages_are_told_with_their_numbers() -> None:
    facts, result = FactsTable(), SyncResult[str]()
    lose(batch(), facts)
    tell_lost(batch(), facts, result)
    assert result.lost_numbers == [5, 7]
    assert result.lost == [(1, 1), (2, 10), (3, 20), (1, 3)]


def test_what_was_settled_meanwhile_is_not_told() -> None:
    facts, result = FactsTable(), SyncResult[str]()
    facts.adopt(1, 9)
    facts.touch(1).settle(1)
    lose(batch(), facts)
    facts.touch(2).settle(10)
    tell_lost(batch(), facts, result)
    assert result.lost == [(3, 20), (1, 3)]


def test_a_move_is_undone_when_its_copy_is_lost_in_any_of_its_queues() -> None:
    facts, result, refused = FactsTable(), SyncResult[str](), batch()
    refused.moves = [
        Move(5, 8, 1, "to three queues"),
        Move(6, 8, 2, "elided"),
        Move(7, 8, 3, "to one queue"),
    ]
    lose(refused, facts)
    facts.touch(1).settle(1)
    facts.touch(2).settle(10)
    assert undo_moves(refused, facts, result) == [refused.moves[0], refused.moves[2]]
    assert result.kept == ["to three queues", "to one queue"]


def test_a_move_stands_when_its_copy_was_settled_everywhere_meanwhile() -> None:
    facts, result, refused = FactsTable(), SyncResult[str](), batch()
    refused.moves = [Move(5, 8, 1, "to three queues"), Move(7, 8, 3, "to one queue")]
    lose(refused, facts)
    for queue_id, seq in ((1, 1), (2, 10), (3, 20), (1, 3)):
        facts.touch(queue_id).settle(seq)
    assert undo_moves(refused, facts, result) == []
    assert result.kept == []


def test_a_step_runs_its_calls() -> None:
    filesystem = MemoryFileSystem()
    reserve = Reserve(filesystem, "/log", 10)
    segments = SegmentSet(filesystem, "/log", b"u" * 16, 4096, reserve, 1, 1, True)
    segments.open()
    step: SyncStep[str] = SyncStep(segments.plan(None, True), 0)
    filesystem.calls.clear()
    step.run()
    assert filesystem.calls == ["sync"]
