"""What two logs have of one queue becomes one window, in order."""

from __future__ import annotations

from amqpd.broker.messages.message import RECOVERED
from amqpd.broker.queues.cold_load import ColdLoad, LoadedWindow, message_of
from amqpd.broker.queues.delivery import NOT_PAGED, READ_BACK, Reference, ReferenceOwner
from amqpd.broker.queues.settled_seqs import SettledSeqs
from amqpd.wire.properties import PERSISTENT
from store.cold_records import DamagedMessage
from store.cold_store import ReadResult
from store.stored_message import StoredMessage
from tests.support.content import PERSISTENT_PROPERTIES, content_of

ADDRESS = b"\x00\x01q\xce"
LAST = 99


def entry(seq: int, body: bytes = b"x") -> StoredMessage:
    content = content_of(body, PERSISTENT_PROPERTIES)
    return StoredMessage(seq, 0, ADDRESS, content, None, 7, 9)


def read(*seqs: int, next_seq: int = LAST + 1, damaged: int = 0) -> ReadResult:
    lost = [DamagedMessage(seq, "lost", True) for seq in range(1, damaged + 1)]
    entries = [entry(seq) for seq in seqs]
    return ReadResult(entries, next_seq, next_seq > LAST, lost, None)


def references(
    window: LoadedWindow,
    delivered_seq: int = 0,
    returned: tuple[int, ...] = (),
    holes: tuple[int, ...] = (),
) -> list[Reference]:
    settled = SettledSeqs()
    for seq in holes:
        settled.add(seq)
    return window.references(ReferenceOwner(), settled, delivered_seq, set(returned))


def seqs(found: list[Reference]) -> list[int]:
    return [int(reference.seq) for reference in found]


def test_a_load_of_nothing_reads_nothing() -> None:
    load = ColdLoad(ReferenceOwner(), 1, 1, LAST, None, None, 0)
    load.run()
    window = LoadedWindow(LAST, None, None)
    assert references(window) == []
    assert (window.next_first, window.error) == (LAST + 1, None)
    assert (window.damaged_stored, window.damaged_paged) == ([], [])


def test_messages_of_both_logs_are_put_in_order() -> None:
    window = LoadedWindow(LAST, read(1, 4, 5), read(2, 3, 6))
    found = references(window)
    assert seqs(found) == [1, 2, 3, 4, 5, 6]
    numbers = [int(reference.message.number) for reference in found]
    assert [number == RECOVERED for number in numbers] == [
        *(True, False, False),
        *(True, True, False),
    ]
    pages = [int(reference.page) for reference in found]
    assert set(pages[1:3] + pages[5:]) == {int(READ_BACK)}
    assert set(pages[:1] + pages[3:5]) == {int(NOT_PAGED)}


def test_behind_the_nearer_end_nothing_is_taken() -> None:
    window = LoadedWindow(LAST, read(1, 4, 5, next_seq=6), read(2, 3, next_seq=4))
    assert window.next_first == 4
    assert seqs(references(window)) == [1, 2, 3]
    window = LoadedWindow(LAST, read(1, next_seq=2), read(5))
    assert window.next_first == 2
    assert seqs(references(window)) == [1]


def test_what_is_settled_is_left_out() -> None:
    window = LoadedWindow(LAST, read(1, 2, 3), None)
    assert seqs(references(window, holes=(2,))) == [1, 3]


def test_what_was_delivered_before_is_marked() -> None:
    window = LoadedWindow(LAST, read(1, 2, 3, 4), None)
    found = references(window, delivered_seq=2, returned=(4,))
    marks = [reference.redelivered for reference in found]
    assert marks == [True, True, False, True]


def test_what_was_lost_is_counted_by_log() -> None:
    window = LoadedWindow(LAST, read(damaged=2), read(damaged=1))
    assert (window.damaged_stored, window.damaged_paged) == ([1, 2], [1])


def test_an_error_of_either_log_is_an_error() -> None:
    broken = ReadResult([], 1, False, [], OSError("broken"))
    assert LoadedWindow(LAST, broken, read(1)).error is broken.error
    assert LoadedWindow(LAST, read(1), broken).error is broken.error


def test_a_message_is_what_it_was_when_it_was_published() -> None:
    message = message_of(entry(1, b"hello"))
    assert message.address == ADDRESS
    assert message.content == content_of(b"hello", PERSISTENT_PROPERTIES)
    assert message.facts & PERSISTENT
    assert (message.enqueued_ms, message.expires_ms) == (7, 9)
