"""Large bodies are parsed like small ones, and others go on meanwhile."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator

import pytest

from amqpd.http.json_text import AT_ONCE_SIZE, parsed

#: White space before it makes a body large.
LARGE = b" " * AT_ONCE_SIZE


@pytest.fixture
def impatient() -> Iterator[None]:
    """Threads take turns quickly."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("before", [b"", LARGE], ids=["small", "large"])
@pytest.mark.parametrize(
    "content",
    [
        [],
        {"a": [1, -2.5, 1e30, True, False, None, "é\n\ud800"], "": {"b": {}}},
        "text",
        0,
    ],
)
async def test_what_was_said_is_what_is_read(before: bytes, content: object) -> None:
    assert await parsed(before + json.dumps(content).encode()) == content


@pytest.mark.parametrize("before", [b"", LARGE], ids=["small", "large"])
@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1,]", b"NaN", b'{"a":Infinity}', b"1 2", b"\xff\xfe\xff"]
)
async def test_what_is_no_json_is_refused(before: bytes, body: bytes) -> None:
    with pytest.raises(ValueError):
        await parsed(before + body)


@pytest.mark.parametrize("before", [b"", LARGE], ids=["small", "large"])
async def test_what_is_nested_too_deeply_is_refused(before: bytes) -> None:
    with pytest.raises(RecursionError):
        await parsed(before + b"[" * 100_000)


@pytest.mark.usefixtures("impatient")
async def test_others_go_on_while_much_is_parsed() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(others())
    found = await parsed(b"[" + b"1," * 200_000 + b"1]")
    assert len(found) == 200_001
    assert turns > 10
    task.cancel()
