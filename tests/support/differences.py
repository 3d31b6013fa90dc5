"""What a test expects when the broker at the other end is RabbitMQ and not ours.

The tests in `tests/server` run against both: ours must do what they say, RabbitMQ
proves that they say what RabbitMQ does. Where we differ on purpose there is a row with
the reason in `tests/conformance/differences.toml`; `Expectations.of` applies it. A test
without a row has one expectation for both.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.support.raw_client import Closed, Endpoint, RawClient

#: A row that was looked up, and what it made of a statement, if there was one.
Noted = dict[str, str]

TABLE: Final = Path(__file__).parents[1] / "conformance" / "differences.toml"


def is_another_broker(endpoint: Endpoint) -> bool:
    """Ask the broker who it is: ours names its version whatever it calls itself."""
    with RawClient(endpoint) as client:
        properties = client.start().server_properties or {}
    return "amqpd_version" not in properties


class Expectations:
    """Rows of the table of differences, seen from one broker, for one test.

    Which rows a test looks up is noted: `make conformance` shows them.
    """

    def __init__(self, is_rabbitmq: bool, note: Callable[[Noted], None]) -> None:
        rows = tomllib.loads(TABLE.read_text())["difference"]
        self._rows: dict[str, dict[str, Any]] = {row["id"]: row for row in rows}
        self._note = note
        self.is_rabbitmq = is_rabbitmq

    def differ(self, row: str) -> bool:
        """Return whether the row, which must be there, holds for this broker."""
        assert row in self._rows
        self._note({"row": row})
        return self.is_rabbitmq

    def of(self, row: str, ours: Closed, **names: str) -> Closed:
        """Return what this broker is expected to answer; `ours` is what amqpd says."""
        changed: dict[str, Any] = {
            key: value.format(**names) if isinstance(value, str) else value
            for key, value in self._rows[row]["rabbitmq"].items()
        }
        theirs = dataclasses.replace(ours, **changed)
        self._note({"row": row, "ours": shown(ours), "peer": shown(theirs)})
        return theirs if self.is_rabbitmq else ours


def shown(closed: Closed) -> str:
    """Return what a client sees, as one line."""
    if closed.level == "socket":
        return "socket closed"
    return f"{closed.level} closed, {closed.code} {closed.text}"
