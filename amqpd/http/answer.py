"""What a handler returns: a status, and JSON or nothing.

Long arrays are kept as the texts of what they consist of, until they are written: to
join megabytes would hold the loop, and take them twice.

JSON is compact UTF-8. A name that is no UTF-8 (clients may send any octets) keeps its
octets as the escapes of surrogates, which is the only way that JSON has for them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode(content: object) -> bytes:
    """Return the JSON of it."""
    return _ENCODER.encode(content).encode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class Answer:
    """An answer; without `octets` and `array` it has no body."""

    octets: bytes | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    #: The texts of an array, one or several items each, instead of `octets`.
    array: Sequence[bytes] | None = None

    def pieces(self, size: int) -> Iterator[bytes | memoryview]:
        """Give the body in pieces of about this size."""
        if self.array is not None:
            yield from _array_pieces(self.array, size)
        elif self.octets is not None:
            view = memoryview(self.octets)
            for start in range(0, len(view), size):
                yield view[start : start + size]

    @property
    def size(self) -> int:
        """How many octets the body has."""
        if self.array is not None:
            commas = max(0, len(self.array) - 1)
            return sum(len(text) for text in self.array) + commas + len("[]")
        return 0 if self.octets is None else len(self.octets)

    @property
    def has_body(self) -> bool:
        """Whether there is one, be it empty."""
        return self.array is not None or self.octets is not None


def _array_pieces(texts: Sequence[bytes], size: int) -> Iterator[bytes]:
    piece: list[bytes] = []
    before, waiting = b"[", 0
    for text in texts:
        piece += (before, text)
        before = b","
        waiting += len(text)
        if waiting >= size:
            yield b"".join(piece)
            piece, waiting = [], 0
    yield b"".join(piece) + (b"]" if texts else b"[]")


NO_CONTENT: Final = Answer(status=204)
CREATED: Final = Answer(status=201)


def json_answer(
    content: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Answer:
    """Return an answer with this content."""
    return Answer(encode(content), status, headers or {})


def put_answer(is_new: bool) -> Answer:
    """Return the answer to a PUT: 201 if it has made something, else 204."""
    return CREATED if is_new else NO_CONTENT
