"""The JSON of requests, read without holding the loop for long.

The library's parser is C and lets nobody else run before it is through, on whatever
thread: twenty megabytes of small numbers are a quarter of a second in which no message
moves. So a body that is not small is parsed on a thread by the same library's parser in
Python. That takes ten times as long and gives way every few milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import json.scanner
from typing import Any, Final, NoReturn

#: A millisecond or two.
AT_ONCE_SIZE: Final = 128 * 1024


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


class _PatientDecoder(json.JSONDecoder):
    """A decoder that has its values scanned in Python."""

    def __init__(self) -> None:
        super().__init__(parse_constant=_refuse_constant)
        make = json.scanner.py_make_scanner  # type: ignore[attr-defined]  # not in typeshed
        self.scan_once = make(self)


async def parsed(octets: bytes) -> Any:
    """Return what the JSON says.

    Raises:
        ValueError: it is none; NaN and infinities are not.
        RecursionError: it is nested too deeply.
    """
    if len(octets) <= AT_ONCE_SIZE:
        return parse(octets)
    return await asyncio.to_thread(parse, octets)


def parse(octets: bytes) -> Any:
    """Do the same here and now, giving way to other threads if it takes long.

    Raises:
        ValueError: it is none; NaN and infinities are not.
        RecursionError: it is nested too deeply.
    """
    if len(octets) <= AT_ONCE_SIZE:
        return json.loads(octets, parse_constant=_refuse_constant)
    text = octets.decode(json.detect_encoding(octets), "surrogatepass")
    return _PatientDecoder().decode(text)
