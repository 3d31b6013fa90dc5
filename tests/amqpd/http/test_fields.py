"""Fields of a body: of the expected kind, or refused."""

from typing import Any

import pytest

from amqpd.http import fields
from amqpd.http.errors import BadRequest


def test_flags_may_be_spelled_out() -> None:
    said = {"a": True, "b": "false", "c": "true"}
    found = [fields.flag(said, key) for key in "abcd"]
    assert found == [True, False, True, False]


@pytest.mark.parametrize("value", [1, None, "yes", []])
def test_another_flag_is_refused(value: Any) -> None:
    with pytest.raises(BadRequest) as refused:
        fields.flag({"a": value}, "a")
    assert refused.value.reason == ["not_boolean", value]


def test_numbers_may_be_text_and_are_cut() -> None:
    found = [fields.count({"n": value}, "n", 9) for value in (0, "7", 10)]
    assert found == [0, 7, 9]


@pytest.mark.parametrize("value", [-1, "x", True, None, 1.5, []])
def test_another_number_is_refused(value: Any) -> None:
    with pytest.raises(BadRequest):
        fields.count({"n": value}, "n", 9)


def test_tags_are_a_list_or_a_text() -> None:
    assert fields.tags("a, b,,c ") == ("a", "b", "c")
    assert fields.tags([" a ", ""]) == ("a",)
    assert fields.tags("") == ()
    with pytest.raises(BadRequest):
        fields.tags([1])


def test_names_are_a_list_of_texts() -> None:
    assert fields.names(["a"], "users") == ["a"]
    for value in ("a", [1], None):
        with pytest.raises(BadRequest, match="users must be a list of texts"):
            fields.names(value, "users")


def test_a_text_is_a_text() -> None:
    assert fields.text({"a": "x"}, "a") == "x"
    assert fields.text({}, "a", "y") == "y"
    with pytest.raises(BadRequest, match="a must be a text"):
        fields.text({"a": 5}, "a")


def test_missing_fields_are_named_in_order() -> None:
    fields.require({"a": None}, "a")
    with pytest.raises(BadRequest) as refused:
        fields.require({"b": 1}, "a", "b", "c")
    assert refused.value.reason == "[{key_missing,a},{key_missing,c}]"
