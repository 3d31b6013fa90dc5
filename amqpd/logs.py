"""How log records look: text for people, JSON for machines, always on standard error.

Standard output belongs to the start-up line alone. What a record is about (the
connection's name, the user) is both in its message and, given as `extra`, a field of
its own in JSON:

    log.info("closing %s", name, extra={"connection": name})

    2026-11-29 15:50:42.117 [info] closing 127.0.0.1:54321 -> 127.0.0.1:5672
    {"time": "...", "level": "info", "logger": "amqpd.net", "message": "closing ...",
     "connection": "127.0.0.1:54321 -> 127.0.0.1:5672"}
"""

from __future__ import annotations

import json
import logging
import sys
import time
from datetime import UTC, datetime
from typing import Final

#: What every record has; everything else on one was given as `extra`.
_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {
    "asctime",
    "message",
    "taskName",
}


class TextFormatter(logging.Formatter):
    """One line a record, its traceback below it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s [%(level)s] %(message)s")
        # The second that was shown last, and how: thousands of clients that come at
        # once are told in few of them.
        self._second = -1
        self._shown = ""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        record.level = record.levelname.lower()
        return super().format(record)

    def formatTime(  # noqa: N802
        self, record: logging.LogRecord, datefmt: str | None = None
    ) -> str:
        """Return when it was, to the millisecond."""
        second = int(record.created)
        if second != self._second:
            self._second = second
            self._shown = time.strftime("%Y-%m-%d %H:%M:%S", self.converter(second))
        return f"{self._shown}.{int(record.msecs):03d}"


class JsonFormatter(logging.Formatter):
    """One JSON object a record, on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object; a field that JSON has no form for becomes text."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(
                timespec="milliseconds"
            ),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        extra = record.__dict__.items()
        fields.update((name, value) for name, value in extra if name not in _STANDARD)
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


def start_logging(level: str, format_name: str) -> None:
    """Send the records of this process to standard error from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if format_name == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    _leave_out_what_is_not_shown()
    set_level(level)
    # asyncio's own news ("Using selector: ...") is about asyncio, not about the broker.
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def _leave_out_what_is_not_shown() -> None:
    """Let records do without what no line of ours has: where they come from.

    File, function, thread and process of each record are half of its price (24 us and
    11 us), and a client that connects and goes is three records.
    """
    logging._srcfile = None
    logging.logThreads = False
    logging.logProcesses = False
    logging.logMultiprocessing = False


def set_level(level: str) -> None:
    """Change which records are written; a reload does."""
    logging.getLogger().setLevel(level.upper())
