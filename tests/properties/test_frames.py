"""Frames of any content, cut anywhere, come out as they went in."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from amqpd.wire.frames import HEAD_SIZE, OVERHEAD, PartialFrame, method_frame, read_u32

PAYLOADS = st.lists(st.binary(max_size=40), min_size=1, max_size=8)
CUTS = st.lists(st.integers(0, 400), max_size=12)


@given(PAYLOADS, CUTS)
def test_any_frames_survive_any_cuts(payloads: list[bytes], cuts: list[int]) -> None:
    frames = [method_frame(at, payload) for at, payload in enumerate(payloads)]
    stream = b"".join(frames)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    reads = [stream[a:b] for a, b in pairwise(edges)]
    assert cut_into_frames(reads) == frames


def cut_into_frames(reads: list[bytes]) -> list[bytes]:
    """As the connection does it: whole frames where they lie, the rest collected."""
    frames: list[bytes] = []
    partial = PartialFrame()
    for data in reads:
        at = partial.take_from(data) if partial else 0
        frame = partial.whole()
        if frame is not None:
            frames.append(frame)
        while len(data) - at >= OVERHEAD:
            end = at + read_u32(data, at + HEAD_SIZE - 4) + OVERHEAD
            if end > len(data):
                break
            frames.append(data[at:end])
            at = end
        if at < len(data):
            partial.start(data[at:], 100)
    return frames
