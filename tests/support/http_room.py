"""The room that handlers of the API stand in, around a broker of a test."""

from __future__ import annotations

from pathlib import Path

from amqpd.http.room import Identity, Room
from tests.support.connection_pair import Bench


class ToldNode:
    """A process that notes what it is told, and does nothing."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def stop_app(self) -> None:
        self.told.append("stop")

    def start_app(self) -> None:
        self.told.append("start")

    async def reset(self) -> None:
        self.told.append("reset")

    def end(self) -> None:
        self.told.append("end")

    def suspend_listeners(self) -> None:
        self.told.append("suspend")

    async def resume_listeners(self) -> None:
        self.told.append("resume")

    def settings(self) -> list[tuple[str, str, str]]:
        return []


class Ticks:
    """What a ticker would say."""

    turn_seconds_max = 0.25
    busy_seconds_max = 0.5
    wait_seconds = 1.5

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def now_ms(self) -> int:
        """The time of the test."""
        return self._bench.now_ms


def room_of(bench: Bench) -> Room:
    """A room around the broker; waking it is one turn."""
    return Room(
        broker=bench.broker,
        identity=Identity("amqpd@test", "test", "0", "3.13.7", Path("/nowhere"), 0),
        node=ToldNode(),
        now_ms=lambda: bench.now_ms,
        wake=bench.turn,
        secrets=bench.broker.secrets,
        loopback_users=frozenset(),
        body_size_max=1000,
        descriptors=lambda: (1, 2),
        ticks=Ticks(bench),
    )
