"""The checksum is zlib's, whoever computes it."""

import runpy
import sys
import zlib
from pathlib import Path

import pytest

import store
from store.checksum import crc32


def test_the_checksum_is_zlibs_for_every_length_and_seed() -> None:
    data = bytes(range(256)) * 5
    for size in (0, 1, 15, 16, 63, 64, 65, 1024, len(data)):
        for seed in (0, 1, 0xFFFFFFFF):
            assert crc32(data[:size], seed) == zlib.crc32(data[:size], seed)
    view = memoryview(data)[3:700]
    assert crc32(view, 9) == zlib.crc32(view, 9)


def test_without_isal_it_is_zlib_that_computes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("isal", "isal.isal_zlib"):
        monkeypatch.setitem(sys.modules, name, None)
    # The source, which lies beside what was compiled from it.
    source = Path(store.__file__).with_name("checksum.py")
    assert runpy.run_path(str(source))["crc32"] is zlib.crc32
