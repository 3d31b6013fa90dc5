"""Batches: header, trailer, and chunks that are not copied."""

from store import batch, record
from store.batch import BatchWriter, read_header, seed_of, trailer_of
from store.checksum import crc32
from store.record import Message, Returned, read_record
from store.seq_ranges import ranges_of


def one_message(content: bytes, body: bytes | None = None) -> BatchWriter:
    writer = BatchWriter(3, 17, 2, 4096)
    writer.begin_message(1, 2, b"env", content, body, 1)
    writer.destination(7, 9, 0)
    writer.end_message(b"env", content, body)
    return writer


def test_a_header_says_what_the_writer_was_told() -> None:
    writer = one_message(b"content")
    data = b"".join(writer.finish())
    header = read_header(data, 0, 3)
    assert header is not None
    assert (header.segment, header.batch) == (3, 17)
    assert (header.durable_segment, header.durable_offset) == (2, 4096)
    assert header.record_count == 1
    assert header.length == len(data) == writer.size
    assert header.end == len(data)
    assert batch.number_in(data, 0) == 17


def test_a_batch_ends_with_its_trailer() -> None:
    data = b"".join(one_message(b"content").finish())
    assert data.endswith(trailer_of(17, seed_of(3, 17)))


def test_a_record_checksum_is_seeded_with_segment_and_batch() -> None:
    data = b"".join(one_message(b"content", b"body").finish())
    start = batch.HEADER_SIZE
    size = record.read_u32(data, start)
    found = record.read_u32(data, start + size - 4)
    assert found == crc32(data[start : start + size - 4], seed_of(3, 17))
    assert found != crc32(data[start : start + size - 4], seed_of(3, 18))


def test_every_kind_of_record_can_be_written() -> None:
    writer = one_message(b"content")
    writer.settle(7, ranges_of([1]))
    writer.delivered(7, 0, 8)
    writer.returned(7, 9, 1, 0)
    data = b"".join(writer.finish())
    offset, kinds = batch.HEADER_SIZE, []
    while offset < len(data) - batch.TRAILER_SIZE:
        kinds.append(data[offset + 4])
        offset += record.read_u32(data, offset)
    assert kinds == [1, 2, 3, 4]
    assert writer.record_count == 4
    assert isinstance(read_record(data, offset - 40), Returned)


def test_a_large_content_is_not_copied() -> None:
    content, body = bytes(20_000), bytes(30_000)
    writer = one_message(content, body)
    chunks = writer.finish()
    assert any(chunk is content for chunk in chunks)
    assert any(chunk is body for chunk in chunks)
    data = b"".join(chunks)
    assert len(data) == writer.size
    found = read_record(data, batch.HEADER_SIZE)
    assert isinstance(found, Message)
    assert (found.content, found.body) == (content, body)


def test_many_small_messages_become_a_few_chunks() -> None:
    writer = BatchWriter(1, 1, 1, 64)
    for i in range(1000):
        writer.begin_message(1, 2, b"env", bytes(1000), None, 1)
        writer.destination(7, i, 0)
        writer.end_message(b"env", bytes(1000), None)
    chunks = writer.finish()
    assert len(chunks) < 20
    assert sum(map(len, chunks)) == writer.size


def test_a_copied_record_gets_a_checksum_of_its_new_batch() -> None:
    old = b"".join(one_message(b"content").finish())
    start = batch.HEADER_SIZE
    end = start + record.read_u32(old, start)
    writer = BatchWriter(4, 18, 4, 64)
    writer.copy(old[start : end - 4])
    new = b"".join(writer.finish())
    # All but the batch that it names.
    assert new[start : start + 8] == old[start : start + 8]
    assert new[start + 12 : end - 4] == old[start + 12 : end - 4]
    assert record.read_u32(new, end - 4) == crc32(new[start : end - 4], seed_of(4, 18))


def test_a_record_found_by_its_offset_is_checked_with_the_batch_it_names() -> None:
    data = b"".join(one_message(b"content").finish())
    start, size = batch.HEADER_SIZE, record.read_u32(data, batch.HEADER_SIZE)
    assert batch.is_sound(data, start, size, 3)
    assert not batch.is_sound(data, start, size, 4)
    assert not batch.is_sound(data, start, size - 1, 3)
    assert not batch.is_sound(data, start, 4, 3)
    assert not batch.is_sound(data[: start + size - 1], start, size, 3)
    for at in range(start, start + size):
        damaged = data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]
        assert not batch.is_sound(damaged, start, size, 3)


def test_the_writer_knows_where_the_next_record_begins() -> None:
    writer = BatchWriter(3, 17, 2, 4096)
    at = batch.HEADER_SIZE
    for content in (b"content", bytes(20_000), b"after"):
        assert writer.position == at
        writer.begin_message(1, 2, b"env", content, None, 1)
        writer.destination(7, 9, 0)
        writer.end_message(b"env", content, None)
        at += record.MESSAGE_OVERHEAD + 14 + 3 + len(content)
    assert record.read_u32(b"".join(writer.finish()), batch.HEADER_SIZE) == 44 + 14 + 10


def test_a_header_of_another_segment_is_none() -> None:
    data = b"".join(one_message(b"content").finish())
    assert read_header(data, 0, 4) is None


def test_a_header_is_valid_for_the_segment_it_names_only() -> None:
    # The checksum is seeded with the segment asked for, so the field alone is wrong.
    data = bytearray(b"".join(one_message(b"content").finish()))
    data[15] = 4
    seed = seed_of(3, 17)
    data[52:56] = crc32(bytes(data[:52]), seed).to_bytes(4)
    assert read_header(bytes(data), 0, 3) is None


def test_a_damaged_header_is_none() -> None:
    good = b"".join(one_message(b"content").finish())
    for at in range(batch.HEADER_SIZE):
        data = bytearray(good)
        data[at] ^= 1
        assert read_header(bytes(data), 0, 3) is None


def test_a_header_that_is_cut_off_is_none() -> None:
    data = b"".join(one_message(b"content").finish())
    assert read_header(data[: batch.HEADER_SIZE - 1], 0, 3) is None


def test_a_header_whose_length_cannot_be_is_none() -> None:
    fields = (batch.MAGIC, 3, 17, batch.OVERHEAD - 1, 3, 64, 0)
    header = batch.HEADER.pack(*fields)
    data = header + crc32(header, seed_of(3, 17)).to_bytes(4)
    assert read_header(data, 0, 3) is None
