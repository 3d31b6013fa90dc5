"""Records that were read back: checked and taken apart."""

from collections.abc import Callable

import pytest

from store import stored_message
from store.batch import HEADER_SIZE, BatchWriter, seed_of
from store.checksum import crc32
from store.record import CHECKSUM_SIZE, HAS_BODY, SETTLE, read_u32
from store.stored_message import (
    ANOTHER,
    DAMAGED,
    FLAGS_AT,
    TYPE_AT,
    Lookup,
    Seeds,
    StoredMessage,
    body_offset,
    envelope_offset,
    is_head,
)

SEGMENT = 3
BATCH = 17
ENVELOPE = b"where it goes"


def record_of(
    content: bytes = b"content",
    body: bytes | None = None,
    keys: tuple[tuple[int, int, int], ...] = ((7, 40, 2),),
    envelope: bytes = ENVELOPE,
) -> bytes:
    writer = BatchWriter(SEGMENT, BATCH, SEGMENT, 64)
    writer.begin_message(11, 22, envelope, content, body, len(keys))
    for key in keys:
        writer.destination(*key)
    writer.end_message(envelope, content, body)
    data = b"".join(writer.finish())[HEADER_SIZE:]
    return data[: read_u32(data, 0)]


def lookup(queue_id: int = 7, segment: int = SEGMENT) -> Lookup:
    return Lookup(Seeds(), segment, queue_id)


# -- checks


def wrong(found: Lookup, data: bytes, size: int, seq: int = 40) -> int:
    assert found.find(data, 0, size, seq) is None
    return int(found.wrong)


def damage_in(data: bytes, size: int) -> bool:
    return wrong(lookup(), data, size) == DAMAGED


@pytest.mark.parametrize("content", [b"", b"content", bytes(600), bytes(10_000)])
@pytest.mark.parametrize("body", [None, b"", b"a body", bytes(10_000)])
@pytest.mark.parametrize("start", [0, 5])
def test_a_sound_record_is_taken_apart(
    content: bytes, body: bytes | None, start: int
) -> None:
    data = record_of(content, body)
    message = lookup().find(bytes(start) + data + b"more", start, len(data), 40)
    assert message is not None
    assert (message.seq, message.lane, message.envelope) == (40, 2, ENVELOPE)
    assert (message.content, message.body) == (content, body)
    assert (message.enqueued_ms, message.expires_ms) == (11, 22)


def test_among_several_destinations_that_of_the_queue_is_found() -> None:
    data = record_of(keys=((7, 39, 1), (8, 40, 1), (7, 40, 65535), (9, 40, 1)))
    found = lookup()
    message = found.find(data, 0, len(data), 40)
    assert message is not None
    assert message.lane == 65535
    assert found.destination_count == 4


def test_a_record_without_the_message_is_another() -> None:
    data = record_of()
    assert wrong(lookup(), data, len(data), 41) == ANOTHER
    assert wrong(lookup(queue_id=8), data, len(data)) == ANOTHER


def test_what_was_wrong_with_one_record_is_not_said_of_the_next() -> None:
    data, found = record_of(), lookup()
    assert wrong(found, data, len(data), 41) == ANOTHER
    assert wrong(found, data[:-1], len(data)) == DAMAGED


@pytest.mark.parametrize("content", [b"x", bytes(600)])
@pytest.mark.parametrize("body", [None, b"y"])
def test_every_byte_of_a_record_matters(content: bytes, body: bytes | None) -> None:
    data = record_of(content, body, keys=((7, 40, 2), (8, 1, 0)))
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 0x55
        assert damage_in(bytes(broken), len(data))


def test_a_record_of_another_segment_is_damaged() -> None:
    data = record_of()
    assert wrong(lookup(segment=4), data, len(data)) == DAMAGED


def test_a_record_that_is_not_all_there_is_damaged() -> None:
    data = record_of()
    for size in range(len(data)):
        assert damage_in(data[:size], len(data))


def test_a_record_of_another_size_is_damaged() -> None:
    data = record_of()
    assert damage_in(data + data, len(data) + 1)
    assert damage_in(data, 10)


@pytest.mark.parametrize("kind", [HAS_BODY, 0])
def test_a_record_of_no_message_is_damaged_though_its_checksum_is_right(
    kind: int,
) -> None:
    data = bytearray(record_of(b"content", b"body")[:-CHECKSUM_SIZE])
    # Without the flag the content would have to reach the end.
    data[FLAGS_AT] = kind
    if kind:
        data[TYPE_AT] = SETTLE
    data += crc32(data, seed_of(SEGMENT, BATCH)).to_bytes(CHECKSUM_SIZE, "big")
    assert damage_in(bytes(data), len(data))


@pytest.mark.parametrize(
    ("write", "body"),
    [
        # Where type, version and content size stand, and what makes no sense there.
        (lambda data: data[:4] + b"\x02" + data[5:], None),
        (lambda data: data[:5] + b"\x63" + data[6:], None),
        (lambda data: data[:32] + b"\x00\x00\x00\x63" + data[36:], None),
        (lambda data: data[:32] + b"\x00\x00\x00\x00" + data[36:], None),
    ],
)
def test_a_head_must_fit_its_record(
    write: Callable[[bytes], bytes], body: bytes | None
) -> None:
    data = record_of(body=body)
    assert is_head(data, 0, len(data))
    assert not is_head(write(data), 0, len(data))


def test_with_a_body_a_content_may_end_before_the_record() -> None:
    data = record_of(b"content", b"body")
    assert is_head(data, 0, len(data))
    assert data[body_offset(data, 0) :].startswith(b"body")
    assert data[envelope_offset(data, 0) :].startswith(ENVELOPE)


def test_seeds_are_remembered_and_right() -> None:
    seeds = Seeds()
    for _ in range(2):
        for batch in (1, 2, 1, 5000, 1):
            assert seeds.of(SEGMENT, batch) == seed_of(SEGMENT, batch)
        assert seeds.of(SEGMENT + 1, 1) == seed_of(SEGMENT + 1, 1)


def test_seeds_forget_when_there_are_too_many() -> None:
    seeds = Seeds()
    for batch in range(1, stored_message._SEEDS_MAX + 50):
        seeds.of(SEGMENT, batch)
    assert seeds.of(SEGMENT, 1) == seed_of(SEGMENT, 1)


def test_seeds_that_are_cleared_are_right_again() -> None:
    seeds = Seeds()
    for _ in range(2):
        assert seeds.of(SEGMENT, 1) == seed_of(SEGMENT, 1)
        assert seeds.of(SEGMENT, 2) == seed_of(SEGMENT, 2)
        assert len(seeds._known) == 2
        seeds.clear()
        assert len(seeds._known) == 0
        assert seeds.of(SEGMENT, 2) == seed_of(SEGMENT, 2)
        assert len(seeds._known) == 0


# -- messages


def test_an_envelope_like_the_one_before_is_that_one() -> None:
    found, messages = lookup(), []
    for envelope in (b"the first key", b"the first key", b"another"):
        data = record_of(envelope=envelope)
        message = found.find(data, 0, len(data), 40)
        assert message is not None
        messages.append(message)
    one, two, three = messages
    assert one.envelope is two.envelope
    assert three.envelope == b"another"


def test_a_message_whose_parts_were_read_alone_has_its_head() -> None:
    head = record_of(b"ignored")
    lookup = Lookup(Seeds(), SEGMENT, 7)
    apart = lookup.message(head, 0, 6, 1, b"content", b"body")
    assert (apart.seq, apart.lane, apart.envelope) == (6, 1, ENVELOPE)
    assert (apart.content, apart.body) == (b"content", b"body")
    assert (apart.enqueued_ms, apart.expires_ms) == (11, 22)


def test_a_message_keeps_what_it_is_made_of() -> None:
    message = StoredMessage(1, 2, b"e", b"c", None, 3, 4)
    assert (message.seq, message.lane, message.body) == (1, 2, None)
