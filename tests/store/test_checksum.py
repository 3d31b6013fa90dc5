"""The checksum is zlib's, whoever computes it."""

import zlib

from store.checksum import crc32


def test_the_checksum_is_zlibs_for_every_length_and_seed() -> None:
    data = bytes(range(256)) * 5
    for size in (0, 1, 15, 16, 63, 64, 65, 1024, len(data)):
        for seed in (0, 1, 0xFFFFFFFF):
            assert crc32(data[:size], seed) == zlib.crc32(data[:size], seed)
    view = memoryview(data)[3:700]
    assert crc32(view, 9) == zlib.crc32(view, 9)
