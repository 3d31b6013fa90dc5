"""After a failed sync everybody is told: the turn that writes the nacks writes all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pamqp import commands

from amqpd.broker.errors import InternalError
from amqpd.broker.ports import Step
from amqpd.clock import Clock
from amqpd.net import ticker as ticker_module
from amqpd.net.ticker import Ticker
from amqpd.protocol.output import Output
from tests.support.connection_pair import Bench, ConnectionPair, method
from tests.support.content import PERSISTENT_PROPERTIES, publish
from tests.support.failing_disk import FailingDisk
from tests.support.noting_client import NotingClient
from tests.support.waiting import wait_until

NACK = method(1, commands.Basic.Nack(1, False, False))


class Publishers:
    """Some publishers of a broker whose disk is broken, and the end of it."""

    def __init__(self, directory: Path) -> None:
        disk = FailingDisk()
        bench = Bench(directory, disk)
        loop = asyncio.get_running_loop()
        self.ticker = Ticker(bench.broker, Clock(), loop, 3600.0, self._on_fatal)
        bench.outputs = self.ticker.outputs
        bench.pending = self.ticker.pending
        self._pairs: list[ConnectionPair] = [bench.connect() for _ in range(6)]
        self._pairs[0].declare("d", durable=True)
        for pair in self._pairs:
            pair.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
        self.clients = [self._client(pair.output) for pair in self._pairs]
        self.is_over = False
        disk.is_broken = True

    def _client(self, output: Output) -> NotingClient:
        client = NotingClient(output)
        output.sink = client
        return client

    def _on_fatal(self, reason: BaseException) -> None:
        for pair in self._pairs:
            pair.connection.close(InternalError("the message log failed"), 0)
        self.is_over = True

    async def publish(self) -> None:
        """Each publishes a persistent message; return when the broker has given up."""
        for pair in self._pairs:
            pair.send(publish("d", b"x", properties=PERSISTENT_PROPERTIES))
        self.ticker.wake()
        await wait_until(lambda: self.is_over)


@pytest.fixture
async def publishers(fast_path: Path) -> AsyncIterator[Publishers]:
    publishers = Publishers(fast_path)
    yield publishers
    publishers.ticker.close()


async def test_nacks_do_not_wait_for_another_turn(
    publishers: Publishers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticker_module, "WRITE_SECONDS_MAX", -1.0)
    await publishers.publish()
    assert [NACK in client.written for client in publishers.clients] == [True] * 6


async def test_nacks_do_not_wait_for_the_collector(
    publishers: Publishers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticker = publishers.ticker
    sync_done = ticker.disk._sync_done

    def sync_done_amid_all(step: Step) -> None:
        # Something was read just now, and the sweep has said that a round is due.
        ticker.wake()
        ticker.garbage.is_due = True
        sync_done(step)

    monkeypatch.setattr(ticker.disk, "_sync_done", sync_done_amid_all)
    await publishers.publish()
    assert [NACK in client.written for client in publishers.clients] == [True] * 6
