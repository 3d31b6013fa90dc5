"""Bodies of answers: how large they are, and in which pieces they are written."""

from __future__ import annotations

import json

import pytest

from amqpd.http.answer import NO_CONTENT, Answer, encode, json_answer


def body(answer: Answer, size: int = 1000) -> bytes:
    return b"".join(answer.pieces(size))


@pytest.mark.parametrize("count", [0, 1, 2, 50])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_pieces_of_an_array_are_json_and_as_long_as_is_said(
    count: int, size: int
) -> None:
    answer = Answer(array=[encode(number) for number in range(count)])
    found = body(answer, size)
    assert json.loads(found) == list(range(count))
    assert (answer.size, answer.has_body) == (len(found), True)


def test_pieces_are_as_long_as_asked_for() -> None:
    array = Answer(array=[b"1234567"] * 10)
    octets = Answer(b"x" * 70)
    assert max(len(piece) for piece in array.pieces(16)) <= 16 + len(",1234567")
    assert [len(piece) for piece in octets.pieces(32)] == [32, 32, 6]


def test_an_answer_without_a_body_has_none() -> None:
    assert (NO_CONTENT.has_body, NO_CONTENT.size, body(NO_CONTENT)) == (False, 0, b"")
    assert json_answer({}).has_body


def test_octets_that_are_no_unicode_are_escaped() -> None:
    assert encode(b"a\xff".decode("utf-8", "surrogateescape")) == b'"a\\udcff"'
