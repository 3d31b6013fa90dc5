"""When two bindings are the same."""

import pytest

from routing.binding import Binding


def binding(**changes: object) -> Binding:
    values: dict[str, object] = {
        "source": "x",
        "destination": "q",
        "to_exchange": False,
        "key": b"k",
        "arguments": {"a": 1},
        "raw_arguments": b"\x01aI\x00\x00\x00\x01",
        **changes,
    }
    return Binding(**values)  # type: ignore[arg-type]


def test_bindings_made_of_the_same_are_the_same() -> None:
    assert binding() == binding()
    assert hash(binding()) == hash(binding())


def test_decoded_arguments_do_not_tell_bindings_apart() -> None:
    assert binding(arguments={}) == binding()


@pytest.mark.parametrize(
    "changes",
    [
        {"source": "y"},
        {"destination": "r"},
        {"to_exchange": True},
        {"key": b"l"},
        {"raw_arguments": b""},
    ],
)
def test_bindings_that_differ_in_one_thing_differ(changes: dict[str, object]) -> None:
    assert binding(**changes) != binding()


def test_a_binding_is_nothing_else() -> None:
    assert binding() != "binding"
