"""Texts are kept while the state is the same, and no longer than their objects."""

from amqpd.http.kept_texts import SPARE, KeptTexts


class Thing:
    def __init__(self) -> None:
        self.is_gone = False
        self.made = 0

    def text(self) -> bytes:
        self.made += 1
        return b"%d" % self.made


def texts() -> KeptTexts[Thing]:
    return KeptTexts[Thing](lambda thing: thing.is_gone)


def test_a_text_is_made_anew_when_the_state_has_changed() -> None:
    kept, thing = texts(), Thing()
    found = [kept.text_of(thing, state, Thing.text) for state in (1, 1, 2, 2, 1)]
    assert found == [b"1", b"1", b"2", b"2", b"3"]


def test_what_is_gone_is_forgotten_when_there_may_be_many() -> None:
    kept = texts()
    things = [Thing() for _ in range(SPARE + 3)]
    for thing in things:
        kept.text_of(thing, 0, Thing.text)
    for thing in things[2:]:
        thing.is_gone = True
    kept.forget_gone(3)
    before = len(kept)
    kept.forget_gone(2)
    assert (before, len(kept)) == (SPARE + 3, 2)
