"""Ports for the listeners of a broker that a test names by number."""

from __future__ import annotations

from typing import Final

from amqpd.testing import HeldPort

#: Held as long as the tests of this process run: no client of theirs comes from one.
_HELD: Final[list[HeldPort]] = []


def held_port() -> int:
    """Return a port that nothing else is given while the tests run."""
    _HELD.append(HeldPort())
    return _HELD[-1].number
