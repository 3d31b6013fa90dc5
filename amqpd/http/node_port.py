"""The process, as far as it can be told over HTTP what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class NodeRuns(Exception):
    """What is to be done needs a node that is stopped."""


class NodePort(Protocol):
    """Whoever runs the broker. All of it happens soon, not at once."""

    def stop_app(self) -> None:
        """Close connections and data; only the API stays, and refuses most."""

    def start_app(self) -> None:
        """Open the data and serve again; nothing happens where that is so."""

    async def reset(self) -> None:
        """Forget all messages and all metadata, as if there had never been any.

        Raises:
            NodeRuns: it serves clients, and must be stopped first.
            OSError: the disk refuses.
        """

    def end(self) -> None:
        """End the process as SIGTERM does."""

    def suspend_listeners(self) -> None:
        """Let no client connect any more; who is connected stays."""

    async def resume_listeners(self) -> None:
        """Let clients connect again.

        Raises:
            OSError: an address has been taken meanwhile.
        """

    def settings(self) -> Iterable[tuple[str, str, str]]:
        """Key, value and origin of every setting; secrets are covered."""
