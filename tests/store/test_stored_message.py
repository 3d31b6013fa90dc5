"""Records that were read back: checked, packed into places, taken apart."""

from collections.abc import Callable

import pytest

from store import stored_message
from store.batch import HEADER_SIZE, BatchWriter, seed_of
from store.record import read_u32
from store.stored_message import (
    ANOTHER,
    DAMAGED,
    Lookup,
    Places,
    Seeds,
    StoredMessage,
    body_offset,
    envelope_offset,
    is_head,
    message_of,
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


@pytest.mark.parametrize("content", [b"", b"content", bytes(10_000)])
@pytest.mark.parametrize("start", [0, 5])
def test_a_sound_record_says_its_lane(content: bytes, start: int) -> None:
    data = record_of(content)
    assert lookup().lane_in(bytes(start) + data + b"more", start, len(data), 40) == 2


def test_among_several_destinations_that_of_the_queue_is_found() -> None:
    data = record_of(keys=((7, 39, 1), (8, 40, 1), (7, 40, 65535), (9, 40, 1)))
    assert lookup().lane_in(data, 0, len(data), 40) == 65535


def test_a_record_without_the_message_is_another() -> None:
    data = record_of()
    assert lookup().lane_in(data, 0, len(data), 41) == ANOTHER
    assert lookup(queue_id=8).lane_in(data, 0, len(data), 40) == ANOTHER


def test_every_byte_of_a_record_matters() -> None:
    data = record_of(b"x", b"y", keys=((7, 40, 2), (8, 1, 0)))
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 0x55
        assert lookup().lane_in(bytes(broken), 0, len(data), 40) == DAMAGED


def test_a_record_of_another_segment_is_damaged() -> None:
    data = record_of()
    assert lookup(segment=4).lane_in(data, 0, len(data), 40) == DAMAGED


def test_a_record_that_is_not_all_there_is_damaged() -> None:
    data = record_of()
    for size in range(len(data)):
        assert lookup().lane_in(data[:size], 0, len(data), 40) == DAMAGED


def test_a_record_of_another_size_is_damaged() -> None:
    data = record_of()
    assert lookup().lane_in(data + data, 0, len(data) + 1, 40) == DAMAGED
    assert lookup().lane_in(data, 0, 10, 40) == DAMAGED


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


# -- places


def place(places: Places, data: bytes, start: int = 0, seq: int = 40) -> None:
    places.add(data, start, seq, 2)


def test_messages_are_taken_apart_in_order() -> None:
    one, two = record_of(b"one"), record_of(b"two", b"a body")
    block = one + two
    places = Places()
    place(places, block, 0, 5)
    place(places, block, len(one), 6)
    place(places, record_of(b"three", b""), 0, 1 << 40)
    found = places.messages()
    assert places.count == 3
    assert [(m.seq, m.content, m.body) for m in found] == [
        (5, b"one", None),
        (6, b"two", b"a body"),
        (1 << 40, b"three", b""),
    ]
    for message in found:
        assert message.envelope == ENVELOPE
        assert (message.enqueued_ms, message.expires_ms) == (11, 22)
        assert message.lane == 2


def test_an_envelope_like_the_one_before_is_that_one() -> None:
    places = Places()
    for envelope in (b"the first key", b"the first key", b"another"):
        place(places, record_of(envelope=envelope))
    one, two, three = places.messages()
    assert one.envelope is two.envelope
    assert three.envelope == b"another"


def test_a_message_in_parts_stands_where_it_was_added() -> None:
    head = record_of(b"ignored")
    apart = message_of(head, 6, 1, b"content", b"body")
    assert apart.envelope == ENVELOPE
    assert (apart.enqueued_ms, apart.expires_ms) == (11, 22)
    places = Places()
    place(places, record_of(b"before"), 0, 5)
    places.add_apart(apart)
    place(places, record_of(b"behind"), 0, 7)
    found = places.messages()
    assert [m.content for m in found] == [b"before", b"content", b"behind"]
    assert found[1] is apart
    assert found[0].envelope is found[2].envelope


def test_a_message_keeps_what_it_is_made_of() -> None:
    message = StoredMessage(1, 2, b"e", b"c", None, 3, 4)
    assert (message.seq, message.lane, message.body) == (1, 2, None)
