"""TLS in front of a server that has none, with a certificate made for the test."""

from __future__ import annotations

import asyncio
import ssl
import threading
from pathlib import Path
from typing import Self

import trustme


class TlsProxy:
    """Listens with TLS and passes everything on to a local port."""

    def __init__(self, port: int, directory: Path) -> None:
        authority = trustme.CA()
        #: What a client has to trust.
        self.ca_path = directory / "ca.pem"
        authority.cert_pem.write_to_path(self.ca_path)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(self._context)
        self._behind = port
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        listen = asyncio.run_coroutine_threadsafe(self._listen(), self._loop)
        self._server = listen.result()
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(
            self._serve, "127.0.0.1", 0, ssl=self._context
        )

    async def _end(self) -> None:
        """Let nothing be left that would warn of not having been waited for."""
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        behind = await asyncio.open_connection("127.0.0.1", self._behind)
        await asyncio.gather(_pump(reader, behind[1]), _pump(behind[0], writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        # One side is gone; the other learns of it below.
        pass
    finally:
        writer.close()
