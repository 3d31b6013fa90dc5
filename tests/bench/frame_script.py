"""A fixed conversation with the core, the same octets every time.

    transient     16 B publishes in reads of 100, delivered auto-ack
    persistent    1 KiB publishes in reads of 100, with confirms, the log written and
                  synced after each read, delivered and acked (multiple) every 100

Before each part it calls `mark`, so that whoever counts instructions can tell the parts
apart; each part is played with COUNT messages and again with twice as many, because
the difference of two has no beginning and no end in it.

    python -m tests.bench.frame_script COUNT        what `instructions` runs
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from typing import Final

from pamqp import commands

from tests.bench.in_place import InPlaceBroker, InPlaceClient, in_place_broker
from tests.support.raw_client import (
    BODY,
    HEADER,
    encode_frame,
    encode_header,
    encode_method,
)

PARTS: Final = ("transient", "persistent")
READ_MESSAGES: Final = 100
#: delivery-mode is the 12th property: present, and 1 or 2.
TRANSIENT: Final = b"\x10\x00\x01"
PERSISTENT: Final = b"\x10\x00\x02"
CHANNEL: Final = 1


class Conversation:
    """A publisher and a consumer of one queue, and what they say."""

    def __init__(self, broker: InPlaceBroker, name: str, is_persistent: bool) -> None:
        self._is_persistent = is_persistent
        self._publisher = broker.connect(name + "-publisher")
        self._consumer = broker.connect(name + "-consumer")
        self._delivered = 0
        declare = commands.Queue.Declare(0, name, durable=is_persistent)
        self._publisher.call(CHANNEL, declare)
        if is_persistent:
            self._publisher.call(CHANNEL, commands.Confirm.Select())
        consume = commands.Basic.Consume(0, name, "consumer", no_ack=not is_persistent)
        self._consumer.call(CHANNEL, consume)
        publish = commands.Basic.Publish(0, "", name)
        body = bytes(1024 if is_persistent else 16)
        properties = PERSISTENT if is_persistent else TRANSIENT
        header = encode_header(len(body), properties)
        message = encode_method(CHANNEL, publish)
        message += encode_frame(HEADER, CHANNEL, header)
        message += encode_frame(BODY, CHANNEL, body)
        self._read = message * READ_MESSAGES
        self._body_size = len(body)

    def play(self, count: int) -> None:
        """Publish `count` messages and take them in.

        Raises:
            AssertionError: something was not delivered, or not confirmed.
        """
        for _ in range(count // READ_MESSAGES):
            self._publisher.send(self._read)
            delivered = _take(self._consumer)
            assert len(delivered) > READ_MESSAGES * self._body_size
            self._delivered += READ_MESSAGES
            if self._is_persistent:
                assert _take(self._publisher)
                ack = commands.Basic.Ack(self._delivered, multiple=True)
                self._consumer.send(encode_method(CHANNEL, ack))


def mark() -> None:
    """Call a function of the C library that nothing else here calls."""
    os.getppid()


def play(count: int) -> None:
    """Play both parts, each with a mark before and after each length."""
    with (
        tempfile.TemporaryDirectory() as directory,
        in_place_broker(directory) as broker,
    ):
        parts = [Conversation(broker, name, name == "persistent") for name in PARTS]
        for part in parts:
            part.play(count)
        # What lives as long as the process is not looked at again, as in the broker.
        gc.collect()
        gc.freeze()
        for part in parts:
            for length in (count, 2 * count):
                mark()
                part.play(length)
                mark()


def _take(client: InPlaceClient) -> bytes:
    received = client.received
    client.received = b""
    return received


if __name__ == "__main__":
    play(int(sys.argv[1]))
