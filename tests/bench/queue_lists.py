"""Ten thousand queues listed again and again: CPU per list, and the longest hold.

    python -m tests.bench.queue_lists [QUEUES]

In process, so that nothing but the list is measured. The first list makes all texts;
the next find most of them as they were, as a tool that polls does. A hold is the CPU
time between two turns of a neighbour on the loop.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from amqpd.http.api.queues import list_queues
from amqpd.http.call import Call
from amqpd.http.room import Room
from tests.support.connection_pair import Bench
from tests.support.control_plane import arguments
from tests.support.http_room import room_of

QUERIES: Final[tuple[dict[str, str], ...]] = (
    {},
    {},
    {},
    {"page": "1", "page_size": "100"},
    {"columns": "name,messages"},
    {"disable_stats": "true"},
    {"sort": "messages", "page": "1"},
)


class Neighbour:
    """Somebody else on the loop, who notes how long it had to wait."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def live(self) -> None:
        """Go on until cancelled."""
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            self.longest = max(self.longest, now - last)
            last = now


def make_queues(bench: Bench, count: int) -> None:
    topology = bench.broker.vhosts["/"].topology
    table = arguments({"x-max-length": 10})
    for number in range(count):
        queue_id = topology.surroundings.take_transient_id()
        topology.make_queue(queue_id, f"queue-{number:06}", False, False, None, table)


def call(room: Room, query: dict[str, str]) -> Call:
    user = room.broker.users.get("guest")
    assert user is not None

    async def no_body() -> bytes:
        return b""

    return Call(room, user, {}, query, {}, no_body)


async def measure(room: Room, query: dict[str, str]) -> str:
    started = time.thread_time()
    answer = await list_queues(call(room, query))
    cpu_ms = (time.thread_time() - started) * 1000
    neighbour = Neighbour()
    task = asyncio.create_task(neighbour.live())
    await asyncio.sleep(0)
    await list_queues(call(room, query))
    task.cancel()
    return (
        f"{query!s:45} {answer.size:>9} octets, {cpu_ms:6.1f} ms of CPU, "
        f"{neighbour.longest * 1000:5.1f} ms the longest hold"
    )


async def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory) / "data")
        make_queues(bench, count)
        room = room_of(bench)
        print(f"{count} queues")
        for query in QUERIES:
            print(await measure(room, query))
        bench.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
