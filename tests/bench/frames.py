"""What the core spends on octets: nanoseconds per message, and per copy.

    python -m tests.bench.frames [--count 100000]

    publish, no queue          a publish that is parsed, validated, routed to nobody
    publish, cut anywhere      the same in reads that end in the middle of frames
    publish and deliver        through one queue to one auto-ack consumer

for bodies of 16 B, 1 KiB and 16 KiB; and, for scale, what it costs to copy as many
octets once (a slice of the read). A message is copied once on its way in, out of the
read that brought it, and once on its way out, into the writer. Whether the core runs
compiled is printed first.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from typing import Final

from pamqp import commands

from amqpd import build_kind
from tests.bench.in_place import InPlaceBroker, InPlaceClient, in_place_broker
from tests.support.raw_client import (
    BODY,
    HEADER,
    encode_frame,
    encode_header,
    encode_method,
)

SIZES: Final = (16, 1024, 16384)
CHANNEL: Final = 1
READ_SIZE: Final = 64 * 1024
REPEATS: Final = 3
QUEUE: Final = "frames"
#: To which nothing is bound.
EXCHANGE: Final = "frames-nowhere"


def main() -> None:
    """Time everything and print a line for each size of body."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.frames")
    parser.add_argument("--count", type=int, default=100_000)
    count = parser.parse_args().count
    print(f"nanoseconds per message, {build_kind()} build")
    print("   body   no queue  cut reads    deliver   one copy")
    with (
        tempfile.TemporaryDirectory() as directory,
        in_place_broker(directory) as broker,
    ):
        publisher = broker.connect("publisher")
        _subscribe(broker)
        for size in SIZES:
            few = max(1, count * SIZES[0] // (SIZES[0] + size // 4))
            lost, kept = _message(size, EXCHANGE, ""), _message(size, "", QUEUE)
            ns = [
                _publish_ns(publisher, _whole_reads(lost), few),
                _publish_ns(publisher, _cut_reads(lost), few),
                _publish_ns(publisher, _whole_reads(kept), few),
                _copy_ns(lost, few),
            ]
            print(f"{size:7}" + "".join(f"{value:11.0f}" for value in ns))


def _subscribe(broker: InPlaceBroker) -> None:
    consumer = broker.connect("consumer")
    consumer.is_kept = False
    consumer.call(CHANNEL, commands.Exchange.Declare(0, EXCHANGE, "fanout"))
    consumer.call(CHANNEL, commands.Queue.Declare(0, QUEUE))
    consumer.call(CHANNEL, commands.Basic.Consume(0, QUEUE, no_ack=True))


def _message(size: int, exchange: str, key: str) -> bytes:
    return (
        encode_method(CHANNEL, commands.Basic.Publish(0, exchange, key))
        + encode_frame(HEADER, CHANNEL, encode_header(size))
        + encode_frame(BODY, CHANNEL, bytes(size))
    )


def _whole_reads(message: bytes) -> tuple[list[bytes], int]:
    """Return reads of whole messages, and how many messages that is."""
    each = max(1, READ_SIZE // len(message))
    return [message * each], each


def _cut_reads(message: bytes) -> tuple[list[bytes], int]:
    """Return reads that end one octet further in a message each time."""
    each = max(1, READ_SIZE // len(message)) * 16
    stream = message * each
    return [stream[i : i + READ_SIZE] for i in range(0, len(stream), READ_SIZE)], each


def _publish_ns(
    client: InPlaceClient, reads: tuple[list[bytes], int], count: int
) -> float:
    data, each = reads
    rounds = max(1, count // each)

    def publish() -> None:
        for _ in range(rounds):
            for read in data:
                client.send(read)

    return _best_seconds(publish) * 1e9 / (rounds * each)


def _copy_ns(message: bytes, count: int) -> float:
    (read,), each = _whole_reads(message)
    size = len(message)

    def copy() -> None:
        for i in range(count):
            start = i % each * size
            _ = read[start : start + size]

    return _best_seconds(copy) * 1e9 / count


def _best_seconds(action: Callable[[], None]) -> float:
    best = float("inf")
    for _ in range(REPEATS):
        started = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - started)
    return best


if __name__ == "__main__":
    main()
