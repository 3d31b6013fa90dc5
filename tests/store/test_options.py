"""The options: the defaults are the documented ones."""

from store.options import MIB, StoreOptions


def test_a_segment_is_16_mib_and_the_reserve_two_of_them() -> None:
    options = StoreOptions()
    assert options.segment_size == 16 * MIB
    assert options.reserve_size == 32 * MIB
