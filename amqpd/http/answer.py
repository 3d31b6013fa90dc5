"""What a handler returns: a status, and JSON or nothing.

JSON is compact UTF-8. A name that is no UTF-8 (clients may send any octets) keeps its
octets as the escapes of surrogates, which is the only way that JSON has for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode(content: object) -> bytes:
    """Return the JSON of it."""
    return _ENCODER.encode(content).encode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class Answer:
    """An answer; without `octets` it has no body."""

    octets: bytes | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


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
