"""Answers packed with gzip, for clients that take them so.

Packing takes a hundredth of a second per megabyte: what is longer than a little is
packed on a thread (the library lets others run meanwhile), and what is very long is not
at all. That is the list of ten thousand queues that a tool asks for every second, and
the time for it belongs to the messages.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import Final

from amqpd.http.answer import Answer

#: RabbitMQ's: less is not worth it.
SIZE_MIN: Final = 300
SIZE_MAX: Final = 1024 * 1024
#: So much takes less than a millisecond.
AT_ONCE_SIZE: Final = 32 * 1024
#: Its fastest; the next ones take twice as long for a tenth less.
LEVEL: Final = 1
#: What makes zlib write gzip.
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS


def is_accepted(said: str) -> bool:
    """Say whether an Accept-Encoding takes gzip."""
    for choice in said.lower().split(","):
        name, _, parameters = choice.partition(";")
        if name.strip() in ("gzip", "x-gzip"):
            return parameters.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00")
    return False


def is_worth_it(size: int) -> bool:
    """Say whether so much is to be packed."""
    return SIZE_MIN <= size <= SIZE_MAX


async def packed(answer: Answer) -> bytes:
    """Return the body as gzip."""
    octets = b"".join(answer.pieces(SIZE_MAX))
    if len(octets) <= AT_ONCE_SIZE:
        return pack(octets)
    return await asyncio.to_thread(pack, octets)


def pack(octets: bytes) -> bytes:
    """Return octets as gzip."""
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    return packer.compress(octets) + packer.flush()
