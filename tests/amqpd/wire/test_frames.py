"""Frames: cut anywhere, refused by their heads, put together byte for byte."""

import pytest
from librt.strings import BytesWriter

from amqpd.wire.errors import FrameMalformed
from amqpd.wire.frames import (
    BODY,
    HEARTBEAT_FRAME,
    PartialFrame,
    byte_at,
    check_head,
    described,
    is_repeated,
    method_frame,
    read_u16,
    read_u32,
    write_head,
)

BODY_FRAME = b"\x03\x00\x01\x00\x00\x00\x05hello\xce"
EMPTY_BODY_FRAME = b"\x03\x00\x01\x00\x00\x00\x00\xce"


def test_numbers_are_read_without_sign() -> None:
    data = b"\x7f\xff\xfe\xff\xff\xff\xfd"
    assert byte_at(data, 1) == 255
    assert read_u16(data, 1) == 0xFFFE
    assert read_u32(data, 3) == 0xFFFFFFFD


@pytest.mark.parametrize("size", [8, 9, 15, 16, 17, 31])
def test_octets_are_repeated_if_every_one_of_them_is(size: int) -> None:
    octets = bytes(range(200, 200 + size))
    assert is_repeated(b"ab" + octets + b"c" + octets, 2, 3 + size, size)
    for at in range(size):
        other = bytearray(octets)
        other[at] ^= 0x80
        assert not is_repeated(octets + bytes(other), 0, size, size)


def test_a_head_is_type_channel_and_size() -> None:
    out = BytesWriter()
    write_head(out, BODY, 0xFEDC, 0x01020304)
    assert out.getvalue() == b"\x03\xfe\xdc\x01\x02\x03\x04"


def test_a_method_frame_is_head_payload_and_end() -> None:
    assert method_frame(258, b"abc") == b"\x01\x01\x02\x00\x00\x00\x03abc\xce"


def test_a_head_that_announces_the_largest_size_is_accepted() -> None:
    check_head(b"zz\x03\x00\x07\x00\x00\x00\x64", 2, 100)


def test_a_frame_one_octet_too_large_is_refused_by_its_head() -> None:
    with pytest.raises(FrameMalformed) as caught:
        check_head(b"\x03\x00\x01\x00\x00\x00\x65", 0, 100)
    # The limit is named without what is let through above it, as RabbitMQ names it.
    assert caught.value.text == "type 3, all octets = <<>>: {frame_too_large,101,92}"


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (b"", "all octets = <<>>"),
        (b"abc", 'all octets = <<"abc">>'),
        (b" ~" * 8, 'all octets = <<" ~ ~ ~ ~ ~ ~ ~ ~">>'),
        (b"a\x7f", "all octets = <<97,127>>"),
        (b"\x1fa", "all octets = <<31,97>>"),
        (bytes(17), "first 16 octets = <<" + ",".join("0" * 16) + ">>"),
    ],
)
def test_a_frame_is_described_by_its_type_and_first_octets(
    payload: bytes, shown: str
) -> None:
    assert described(9, payload, "") == f"type 9, {shown}"
    assert described(9, payload, "why") == f"type 9, {shown}: why"


@pytest.mark.parametrize("cut", range(1, len(BODY_FRAME)))
def test_a_frame_survives_any_cut(cut: int) -> None:
    partial = PartialFrame()
    partial.start(BODY_FRAME[:cut], 100)
    assert partial
    assert partial.whole() is None
    assert partial.take_from(BODY_FRAME[cut:]) == len(BODY_FRAME) - cut
    assert partial.whole() == BODY_FRAME
    assert not partial
    assert partial.whole() is None


@pytest.mark.parametrize("cut", range(1, len(EMPTY_BODY_FRAME)))
def test_a_frame_without_a_payload_survives_any_cut(cut: int) -> None:
    partial = PartialFrame()
    partial.start(EMPTY_BODY_FRAME[:cut], 100)
    assert partial.take_from(EMPTY_BODY_FRAME[cut:]) == len(EMPTY_BODY_FRAME) - cut
    assert partial.whole() == EMPTY_BODY_FRAME


def test_a_frame_may_come_octet_by_octet() -> None:
    partial = PartialFrame()
    partial.start(BODY_FRAME[:1], 100)
    for at in range(1, len(BODY_FRAME)):
        assert partial.whole() is None
        assert partial.take_from(BODY_FRAME[at : at + 1]) == 1
    assert partial.whole() == BODY_FRAME


@pytest.mark.parametrize("cut", [1, 6, 7, 9])
def test_what_comes_behind_the_frame_is_left_alone(cut: int) -> None:
    partial = PartialFrame()
    partial.start(BODY_FRAME[:cut], 100)
    taken = partial.take_from(BODY_FRAME[cut:] + HEARTBEAT_FRAME)
    assert taken == len(BODY_FRAME) - cut
    assert partial.whole() == BODY_FRAME


def test_nothing_comes_of_no_octets() -> None:
    partial = PartialFrame()
    assert not partial
    assert partial.whole() is None
    partial.start(BODY_FRAME[:3], 100)
    assert partial.take_from(b"") == 0
    assert partial.whole() is None


def test_the_next_frame_starts_afresh() -> None:
    partial = PartialFrame()
    partial.start(BODY_FRAME[:9], 100)
    partial.take_from(BODY_FRAME[9:])
    partial.whole()
    partial.start(EMPTY_BODY_FRAME[:2], 100)
    partial.take_from(EMPTY_BODY_FRAME[2:])
    assert partial.whole() == EMPTY_BODY_FRAME


def test_a_whole_head_is_refused_at_once() -> None:
    with pytest.raises(FrameMalformed):
        PartialFrame().start(b"\x03\x00\x01\x00\x00\x00\x65", 100)


def test_a_head_is_refused_as_soon_as_it_is_whole() -> None:
    partial = PartialFrame()
    partial.start(b"\x03\x00\x01\x00\x00\x00", 100)
    with pytest.raises(FrameMalformed):
        partial.take_from(b"\x65")


def test_a_large_frame_that_comes_in_small_pieces_is_joined_once() -> None:
    # Joining what is there with each piece would copy 550 GB: a matter of minutes.
    size, piece = 8 * 1024 * 1024, 64
    frame = method_frame(1, bytes(size))
    partial = PartialFrame()
    partial.start(frame[:piece], size)
    for at in range(piece, len(frame), piece):
        partial.take_from(frame[at : at + piece])
    assert partial.whole() == frame
