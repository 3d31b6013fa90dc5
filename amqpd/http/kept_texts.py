"""The JSON of what is listed again and again, kept until something about it changes.

A tool that asks for ten thousand queues every second should not cost more than the
queues do, and from one second to the next most of them are as they were. So a text is
kept with a *state*: a few values that are quick to read, and are equal only if the
text is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar, final

T = TypeVar("T")

#: So many more than there are may be kept before those that are gone are looked for.
SPARE: Final = 1000


@final
class KeptTexts(Generic[T]):
    """Texts of objects of one kind."""

    def __init__(self, is_gone: Callable[[T], bool]) -> None:
        self._is_gone = is_gone
        self._kept: dict[T, tuple[object, bytes]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def text_of(self, one: T, state: object, make: Callable[[T], bytes]) -> bytes:
        """Return the text of an object in a state, made anew if it has changed."""
        kept = self._kept.get(one)
        if kept is not None and kept[0] == state:
            return kept[1]
        text = make(one)
        self._kept[one] = (state, text)
        return text

    def forget_gone(self, count: int) -> None:
        """Forget objects that are gone, if those may be many; `count` are there."""
        if len(self._kept) > count + SPARE:
            self._kept = {
                one: kept for one, kept in self._kept.items() if not self._is_gone(one)
            }
