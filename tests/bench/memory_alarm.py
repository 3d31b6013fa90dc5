"""Producers that flood a broker whose memory is limited, and consumers that go on.

    python -m tests.bench.memory_alarm --seconds 60 --limit 110MiB

Ten connections publish as fast as they may, with confirms, half of them persistent
messages; two consumers take and ack at a rate of their own. Told is how far the
resident memory was above the watermark while that went on, how often publishers were
blocked, and whether everything that was confirmed was delivered in the end. With
--check the exit status is 1 if memory was more than a tenth over, or anything is lost.

In the end all of it is taken by two clients in Python, which takes several times as
long as publishing it did; how far that is is told now and then.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import struct
import sys
import time
from pathlib import Path
from typing import Final

from pamqp import commands

from amqpd.settings import Amount
from amqpd.testing import AmqpdServer
from tests.bench.machine import resident_mb
from tests.support.connection_pair import method
from tests.support.content import PERSISTENT_PROPERTIES, publish
from tests.support.stream_client import StreamClient

PRODUCERS: Final = 10
BODY_SIZES: Final = (1_000, 4_000, 60_000)
BATCH_SIZE: Final = 256 * 1024
PREFETCH: Final = 200
SAMPLE_SECONDS: Final = 0.05
DRAIN_SECONDS: Final = 3.0
MIB: Final = 1024 * 1024


class Producer:
    """Publishes numbered messages and notes which of them are confirmed."""

    def __init__(self, number: int, client: StreamClient) -> None:
        self.number = number
        self.queue = "durable" if number % 2 else "transient"
        self.published = 0
        self.confirmed = 0
        self.blocked_count = 0
        self._client = client
        self._size = BODY_SIZES[number % len(BODY_SIZES)]

    async def flood(self, end: asyncio.Event) -> None:
        """Publish until the end, as fast as the socket takes it."""
        properties = PERSISTENT_PROPERTIES if self.number % 2 else b"\x00\x00"
        while not end.is_set():
            batch = bytearray()
            while len(batch) < BATCH_SIZE:
                self.published += 1
                body = struct.pack(">HQ", self.number, self.published)
                body = body.ljust(self._size, b".")
                batch += publish(self.queue, body, properties=properties)
            self._client.send(bytes(batch))
            await self._client.writer.drain()
            # Others have their turn even when the socket takes everything.
            await asyncio.sleep(0)

    async def listen(self) -> None:
        """Note confirms; they come in order here, since nothing is refused."""
        while True:
            found = (await self._client.next_frame()).method
            if isinstance(found, commands.Basic.Ack):
                assert found.delivery_tag is not None
                self.confirmed = max(self.confirmed, found.delivery_tag)
            elif isinstance(found, commands.Connection.Blocked):
                self.blocked_count += 1


class Consumer:
    """Takes messages and acks them, a bounded number a second."""

    def __init__(self, queue: str, client: StreamClient, rate: int) -> None:
        self.received: set[tuple[int, int]] = set()
        self.rate = rate
        self._queue = queue
        self._client = client

    async def run(self) -> None:
        """Consume for ever."""
        client = self._client
        await client.call(commands.Basic.Qos(0, PREFETCH), commands.Basic.QosOk)
        consume = commands.Basic.Consume(queue=self._queue)
        await client.call(consume, commands.Basic.ConsumeOk)
        while True:
            count = PREFETCH // 4
            started = time.perf_counter()
            for _ in range(count):
                (body,) = await client.deliveries(1)
                self.received.add(struct.unpack_from(">HQ", body))
                self._last += 1
            client.send(method(1, commands.Basic.Ack(self._last, True)))
            pause = count / self.rate - (time.perf_counter() - started)
            await asyncio.sleep(max(0.0, pause))

    _last = 0


async def sample(pid: int, end: asyncio.Event, found: list[float]) -> None:
    """Note the resident memory again and again."""
    while not end.is_set():
        found.append(resident_mb(pid))
        await asyncio.sleep(SAMPLE_SECONDS)


async def measure(server: AmqpdServer, seconds: float, limit_mb: float) -> bool:
    """Run the load; print what was found and return whether it is as promised."""
    producers = []
    for number in range(PRODUCERS):
        client = await StreamClient.open(server.port)
        await client.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
        producers.append(Producer(number, client))
    consumers = []
    for queue in ("durable", "transient"):
        client = await StreamClient.open(server.port)
        declare = commands.Queue.Declare(queue=queue, durable=queue == "durable")
        await client.call(declare, commands.Queue.DeclareOk)
        consumers.append(Consumer(queue, client, 500))
    end = asyncio.Event()
    sizes: list[float] = []
    listeners = [asyncio.create_task(one.listen()) for one in producers]
    takers = [asyncio.create_task(one.run()) for one in consumers]
    floods = [asyncio.create_task(one.flood(end)) for one in producers]
    sampling = asyncio.create_task(sample(server.pid, end, sizes))
    await asyncio.sleep(seconds)
    taken = sum(len(one.received) for one in consumers)
    end.set()
    await sampling
    for one in consumers:
        one.rate = 1_000_000
    await asyncio.gather(*floods)
    missing = await _drain(producers, consumers)
    for task in (*listeners, *takers):
        task.cancel()
    confirmed = sum(one.confirmed for one in producers)
    blocked = sum(one.blocked_count for one in producers)
    over = max(sizes) / limit_mb - 1
    print(
        f"highest {max(sizes):.0f} MiB of {limit_mb:.0f} ({over:+.1%}), "
        f"median {sorted(sizes)[len(sizes) // 2]:.0f}; {confirmed:,} confirmed, "
        f"{taken:,} taken meanwhile, blocked {blocked} times, {missing} missing"
    )
    return over <= 0.1 and missing == 0 and blocked > 0 and taken > 0


async def _drain(producers: list[Producer], consumers: list[Consumer]) -> int:
    """Wait until nothing more comes; return how many confirmed were not delivered."""
    while True:
        before = sum(len(one.received) for one in consumers)
        await asyncio.sleep(DRAIN_SECONDS)
        after = sum(len(one.received) for one in consumers)
        if after == before:
            break
        confirmed = sum(one.confirmed for one in producers)
        print(f"taken {after:,} of {confirmed:,}", file=sys.stderr)
    received = set().union(*(one.received for one in consumers))
    missing = 0
    for one in producers:
        for number in range(1, one.confirmed + 1):
            missing += (one.number, number) not in received
    return missing


def main() -> int:
    """Run what the command line asks for; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--limit", default="110MiB")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--amqpd", help="the command of the broker")
    parser.add_argument("--data-dir", type=Path)
    said = parser.parse_args()
    limit = Amount().from_text(said.limit)
    config = f'[memory]\nhigh_watermark = "{said.limit}"\n'
    command = [said.amqpd] if said.amqpd else None
    with AmqpdServer(config=config, command=command, data_dir=said.data_dir) as server:
        is_good = asyncio.run(measure(server, said.seconds, limit / MIB))
        if os.environ.get("AMQPD_BENCH_LOG"):
            print(server.log, file=sys.stderr)
    return 1 if said.check and not is_good else 0


if __name__ == "__main__":
    sys.exit(main())
