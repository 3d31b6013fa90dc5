"""One connection floods; what the others feel of it.

A flood of 16-byte messages goes through a fanout of 1,000 queues, as fast as the broker
takes it: each publish is a thousand enqueues. There are always 1,000 publishes on their
way (without that bound, what socket buffers hold would be minutes of work). Beside it

    a paced stream      its own queue: how long from publish to deliver
    a quiet connection  heartbeat 2 s, sends its own on time: is it lost, and what is
                        the longest silence of the broker towards it
"""

from __future__ import annotations

import threading
import time
from typing import Final

from tests.bench.broker import Target
from tests.bench.figures import Figures
from tests.bench.generator import Generator, finish
from tests.support.raw_client import HEARTBEAT, HEARTBEAT_FRAME, Endpoint, RawClient

QUEUES: Final = 1000
PUBLISHES_ON_THE_WAY: Final = 1000
PACED_PER_SECOND: Final = 500
HEARTBEAT_SECONDS: Final = 2
#: Until the flood has filled what buffers there are, and how long it outlasts the rest.
LEAD_SECONDS: Final = 1.0
#: What a consumer of the flood takes to connect, generously.
CONNECT_SECONDS: Final = 0.003


class QuietConnection(threading.Thread):
    """A connection that only sends heartbeats, and notes what becomes of it."""

    def __init__(self, target: Target) -> None:
        super().__init__(daemon=True)
        self._client = RawClient(Endpoint.from_url(target.uri))
        self._client.open(heartbeat=HEARTBEAT_SECONDS)
        self._is_ending = threading.Event()
        self.is_lost = False
        self.silence_max_s = 0.0

    def run(self) -> None:
        self._client.set_timeout(HEARTBEAT_SECONDS / 4)
        heard = sent = time.monotonic()
        while not self._is_ending.is_set() and not self.is_lost:
            is_heard = self._hear()
            now = time.monotonic()
            self.silence_max_s = max(self.silence_max_s, now - heard)
            if is_heard:
                heard = now
            if now - sent >= HEARTBEAT_SECONDS / 2 and not self.is_lost:
                self._client.send_bytes(HEARTBEAT_FRAME)
                sent = now

    def _hear(self) -> bool:
        try:
            received = self._client.receive_frame()
        except TimeoutError:
            return False
        except (EOFError, OSError):
            self.is_lost = True
            return False
        # Anything but a heartbeat is the broker's close.
        self.is_lost = received.kind != HEARTBEAT
        return True

    def end(self) -> None:
        """Stop and close the socket."""
        self._is_ending.set()
        self.join()
        self._client.disconnect()


def measure_fairness(
    generator: Generator, target: Target, seconds: float, consumers: int = 0
) -> Figures:
    """Flood, and measure the paced stream in the middle of it."""
    shape = ["--exchange", "fanout", "--queues", str(QUEUES), "--size", "16"]
    shape += ["--prefix", "flood", "--confirm", str(PUBLISHES_ON_THE_WAY)]
    once = ("--mode", "publish", "--count", "1")
    mode = ("--consumers", str(consumers)) if consumers else ("--mode", "publish")
    lead_seconds = LEAD_SECONDS + consumers * CONNECT_SECONDS
    flood_seconds = lead_seconds + seconds + LEAD_SECONDS
    generator.run(target, *shape, *once, "--keep")
    quiet = QuietConnection(target)
    quiet.start()
    flood = generator.start(
        target, *shape, *mode, "--no-declare", "--seconds", str(flood_seconds)
    )
    try:
        time.sleep(lead_seconds)
        paced = generator.run(
            target,
            *("--rate", str(PACED_PER_SECOND), "--latency", "--size", "16"),
            *("--prefix", "paced", "--seconds", str(seconds)),
        )
        flooded = finish(flood)
    finally:
        flood.kill()
        quiet.end()
    # Without --keep the generator removes what it used.
    generator.run(target, *shape, *once)
    phase = flooded.get("result") or flooded["publish"]
    latency = paced["latency_us"]
    return {
        "latency_p50_us": latency["p50"],
        "latency_p99_us": latency["p99"],
        "latency_max_us": latency["max"],
        "flood_enqueued_per_s": phase["confirm_rate"] * QUEUES,
        "heartbeats_lost": float(quiet.is_lost),
        "broker_silence_max_s": quiet.silence_max_s,
    }
