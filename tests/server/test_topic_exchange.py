"""Topic exchanges: words, `*` for one of them, `#` for any number."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.wiring import Wiring

KEYS: Final = ("", "a", "b", "a.", ".a", ".", "a.b", "a..b", "..", "a.a", "b.b")

MATCHING: Final[dict[str, set[str]]] = {
    "": {""},
    "*": {"a", "b"},
    "#": set(KEYS),
    "a": {"a"},
    "a.": {"a."},
    "*.": {"a.", "."},
    ".*": {".a", "."},
    "*.*": {"a.", ".a", ".", "a.b", "a.a", "b.b"},
    "#.a": {"a", ".a", "a.a"},
    "a.#": {"a", "a.", "a.b", "a..b", "a.a"},
    "#.#": set(KEYS),
    "*.#": set(KEYS) - {""},
    "a.*.b": {"a..b"},
    "#.a.#": {"a", "a.", ".a", "a.b", "a..b", "a.a"},
    "#.b.#.b": {"b.b"},
    # RabbitMQ 4.3 refuses more than two of them.
    "#.a.#.b.#": {"a.b", "a..b"},
    # Only a word that is nothing else is a wildcard.
    "##": set(),
    "*a": set(),
}


@pytest.mark.parametrize("pattern", MATCHING)
def test_a_pattern_matches_word_by_word(wiring: Wiring, pattern: str) -> None:
    exchange = wiring.exchange("topic")
    queue = wiring.queue(exchange, key=pattern)
    for key in KEYS:
        wiring.send(exchange, key, key.encode())
    found = {body.decode() for body in wiring.bodies(queue)}
    assert found == MATCHING[pattern]


@pytest.mark.parametrize("level", [0, 13, 27])
def test_patterns_of_28_words_are_matched(wiring: Wiring, level: int) -> None:
    # As Celery binds its exchanges for delayed tasks: a word for each bit of the delay.
    exchange = wiring.exchange("topic")
    waits, goes_on = wiring.queue(), wiring.queue()
    stars = "*." * (27 - level)
    wiring.bind(waits, exchange, f"{stars}1.#")
    wiring.bind(goes_on, exchange, f"{stars}0.#")
    for bit in "10":
        words = ["0"] * 28
        words[27 - level] = bit
        wiring.send(exchange, ".".join([*words, "queue"]), bit.encode())
    assert (wiring.bodies(waits), wiring.bodies(goes_on)) == ([b"1"], [b"0"])
