"""A node that is stopped: no data is open, nobody can connect, only the API answers.

It knows who may ask, as the broker knew it that was stopped, and waits to be told that
it shall start again, or that the process is to end.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, final

from amqpd.broker.clients.secret_checks import SecretCheck, SecretChecks
from amqpd.http.door import Door
from amqpd.http.node_control import standby_endpoints
from amqpd.http.room import Room
from amqpd.http.routes import ENDPOINTS
from amqpd.http.server import HttpServer
from amqpd.opening import forget_everything

logger = logging.getLogger("amqpd.standby")

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@final
class Standby:
    """Waits on the addresses that the API had."""

    def __init__(self, room: Room, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._addresses = [
            (each.address, each.port)
            for each in room.listeners
            if each.protocol == "http"
        ]
        self._settings = list(room.node.settings())
        # What was being verified when the broker stopped is nobody's business now.
        self._secrets = SecretChecks(os.urandom)
        self._room = replace(
            room, node=self, wake=self._verify, secrets=self._secrets, listeners=[]
        )
        self._is_over = asyncio.Event()
        self._starts = False

    async def wait(self) -> bool:
        """Return whether the node shall start again; else the process is to end.

        Raises:
            OSError: an address has been taken meanwhile.
        """
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.end)
        answering = HttpServer(self._room, standby_endpoints(ENDPOINTS))
        http = Door(self._room, answering)
        try:
            for address, port in self._addresses:
                await http.listen(address, port)
            logger.info("stopped; PUT /api/amqpd/app starts it again")
            await self._is_over.wait()
        finally:
            await http.stop()
        return self._starts

    def stop_app(self) -> None:
        """It is stopped already."""

    def start_app(self) -> None:
        """Start again."""
        self._starts = True
        self._is_over.set()

    async def reset(self) -> None:
        """Forget everything that the data directory holds.

        Raises:
            OSError: the disk refuses, or another process has the directory.
        """
        await asyncio.to_thread(forget_everything, self._data_dir)
        logger.warning("reset: all messages and all metadata are forgotten")

    def end(self) -> None:
        """End the process."""
        self._is_over.set()

    def suspend_listeners(self) -> None:
        """Nobody can connect anyhow."""

    async def resume_listeners(self) -> None:
        """They come back when the node starts."""

    def settings(self) -> Iterable[tuple[str, str, str]]:
        """Those that the broker had."""
        return self._settings

    def _verify(self) -> None:
        """Verify passwords; there is no broker whose turns would."""
        loop = asyncio.get_running_loop()
        while (check := self._secrets.begin()) is not None:
            done = loop.run_in_executor(None, check.run)
            done.add_done_callback(partial(self._verified, check))

    def _verified(self, check: SecretCheck, done: asyncio.Future[None]) -> None:
        self._secrets.complete(check)
