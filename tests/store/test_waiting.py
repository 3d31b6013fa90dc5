"""Waiting messages: elision, numbers and sizes."""

from store.batch import HEADER_SIZE, BatchWriter
from store.record import Message, read_record
from store.statistics import StoreStatistics
from store.waiting import WaitingMessage, WaitingMessages, seq_in


def message(
    queue_id: int = 1, seq: int = 1, body: bytes | None = None
) -> WaitingMessage:
    return WaitingMessage(b"env", b"content", body, 5, 6, queue_id, seq, 2)


def destinations(one: WaitingMessage) -> list[tuple[int, int, int]]:
    writer = BatchWriter(1, 1, 1, 64)
    one.write(writer)
    found = read_record(b"".join(writer.finish()), HEADER_SIZE)
    assert isinstance(found, Message)
    assert (found.enqueued_ms, found.expires_ms) == (5, 6)
    return [(int(d.queue_id), int(d.seq), int(d.lane)) for d in found.destinations]


def test_numbers_rise_by_one_across_takes() -> None:
    waiting = WaitingMessages(StoreStatistics())
    assert [waiting.append(message()), waiting.append(message())] == [1, 2]
    assert len(waiting.take()) == 2
    assert waiting.append(message()) == 3
    assert waiting.base == 3


def test_the_size_is_that_of_the_record() -> None:
    waiting = WaitingMessages(StoreStatistics())
    waiting.append(message(body=b"body"))
    waiting.add_destination(2, 1, 0)
    assert waiting.bytes_waiting == len(b"envcontentbody") + 44 + 2 * 14
    assert waiting.messages[0] is not None
    writer = BatchWriter(1, 1, 1, 64)
    empty = writer.size
    waiting.messages[0].write(writer)
    writer.finish()
    assert writer.size - empty == waiting.bytes_waiting


def test_a_message_settled_while_it_waits_is_gone() -> None:
    waiting = WaitingMessages(StoreStatistics())
    number = waiting.append(message())
    waiting.settle(number, 1)
    assert waiting.bytes_waiting == 0
    waiting.settle(number, 1)
    assert waiting.take() == [None]


def test_an_elided_destination_is_not_written() -> None:
    waiting = WaitingMessages(StoreStatistics())
    number = waiting.append(message())
    for queue_id in (2, 3, 4):
        waiting.add_destination(queue_id, queue_id * 10, 0)
    waiting.settle(number, 3)
    waiting.settle(number, 1)
    (left,) = waiting.take()
    assert left is not None
    assert destinations(left) == [(2, 20, 0), (4, 40, 0)]


def test_a_message_all_of_whose_destinations_are_elided_is_gone() -> None:
    waiting = WaitingMessages(StoreStatistics())
    number = waiting.append(message())
    waiting.add_destination(2, 1, 0)
    waiting.add_destination(3, 1, 0)
    for queue_id in (3, 1, 2):
        waiting.settle(number, queue_id)
    assert waiting.take() == [None]
    assert waiting.bytes_waiting == 0


def test_a_queue_that_a_message_does_not_go_to_elides_nothing() -> None:
    one = message()
    assert not one.elide(9)
    waiting = WaitingMessages(StoreStatistics())
    number = waiting.append(one)
    waiting.add_destination(2, 1, 0)
    waiting.settle(number, 9)
    assert destinations(one) == [(1, 1, 2), (2, 1, 0)]


def test_of_a_queue_that_is_gone_everything_is_elided() -> None:
    waiting = WaitingMessages(StoreStatistics())
    for seq in (1, 2):
        waiting.append(message(1, seq))
    waiting.append(message(2, 1))
    waiting.add_destination(1, 5, 0)
    waiting.settle(1, 1)
    waiting.elide_queue(1)
    left = [one for one in waiting.take() if one is not None]
    assert [destinations(one) for one in left] == [[(2, 1, 2)]]


def test_every_reference_that_is_elided_is_counted_once() -> None:
    statistics = StoreStatistics()
    waiting = WaitingMessages(statistics)
    number = waiting.append(message())
    waiting.add_destination(2, 1, 0)
    waiting.append(message(2, 2))
    waiting.settle(number, 9)
    assert statistics.elided == 0
    waiting.settle(number, 1)
    waiting.settle(number, 1)
    assert statistics.elided == 1
    waiting.elide_queue(2)
    assert statistics.elided == 3


def test_the_seq_of_a_destination_is_found() -> None:
    waiting = WaitingMessages(StoreStatistics())
    one = message(1, 7)
    waiting.append(one)
    assert (seq_in(one, 1), seq_in(one, 2)) == (7, -1)
    waiting.add_destination(2, 8, 0)
    assert (seq_in(one, 2), seq_in(one, 3)) == (8, -1)
