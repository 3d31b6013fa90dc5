"""A bar for work that takes a while, on a terminal only."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress


class Bar:
    """Shows how much is done; elsewhere than on a terminal it shows nothing.

    `total` None is for work whose size nobody knows yet.
    """

    def __init__(self, what: str, total: int | None, is_bytes: bool = False) -> None:
        self._what = what
        self._total = total
        self._is_bytes = is_bytes
        self._drawing: Progress | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._drawing = self._drawn()
            self._drawing.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawing is not None:
            self._drawing.stop()

    def advance(self, count: int) -> None:
        """That much more is done."""
        if self._drawing is not None:
            self._drawing.advance(self._drawing.task_ids[0], count)

    def _drawn(self) -> Progress:
        # Only here: it takes as long as all other imports together.
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        drawing = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn() if self._is_bytes else MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        drawing.add_task(self._what, total=self._total)
        return drawing
