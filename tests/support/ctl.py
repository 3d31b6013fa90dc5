"""amqpctl in this process, against a broker: words in, what was printed out.

ctl = Ctl(server.http_url)
ctl("list_queues", "name").lines                  what it printed
ctl.rows("list_queues", "name", "messages")       the same from JSON
ctl("delete_user", "nobody").code                 the exit code
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from amqpd.cli import rabbitmqctl
from amqpd.cli.ctl import command_line


@dataclass(frozen=True)
class Printed:
    """What came of it."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Standard output, line by line."""
        return self.out.splitlines()


class Ctl:
    """Runs verbs against one broker."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, *words: str, stdin: bytes = b"") -> Printed:
        """Run `amqpctl` with these words."""
        words = ("--url", self.url, *words)
        return _run(lambda: command_line.main(words), stdin)

    def tool(self, *words: str) -> Printed:
        """Run one of RabbitMQ's tools, the first word."""
        words = (words[0], "--url", self.url, *words[1:])
        return _run(lambda: rabbitmqctl.main(words), b"")

    def completed(self, *words: str) -> list[str]:
        """Return what the last of half-written words may become."""
        words = ("complete", "--url", self.url, *words)
        return _run(lambda: command_line.main(words), b"").out.splitlines()

    def done(self, *words: str, stdin: bytes = b"") -> str:
        """Run it, fail unless it succeeds, and return what it printed."""
        printed = self(*words, stdin=stdin)
        assert printed.code == 0, (words, printed)
        return printed.out

    def json(self, *words: str) -> Any:
        """Return what it says to programs."""
        return json.loads(self.done("--json", *words))

    def rows(self, *words: str) -> list[tuple[Any, ...]]:
        """Return a list as it is said to programs, without the names of columns."""
        return [tuple(row.values()) for row in self.json(*words)]


def _run(main: Callable[[], int], stdin: bytes) -> Printed:
    out, err = io.StringIO(), io.StringIO()
    typed = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    with redirect_stdout(out), redirect_stderr(err), patch("sys.stdin", typed):
        code = main()
    return Printed(code, out.getvalue(), err.getvalue())
