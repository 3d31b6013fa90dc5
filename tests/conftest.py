"""What holds for every test: which broker is tested, and how failures are shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

import amqpd

# The assertions of the shared test code explain themselves as those of tests do; this
# comes before the first import of it, which is in the conftest.py files below.
pytest.register_assert_rewrite("tests.support")

# No deadline for one example: a busy machine is not a wrong broker.
settings.register_profile("amqpd", deadline=None)
settings.load_profile("amqpd")


def pytest_configure(config: pytest.Config) -> None:
    """Hold a complete run against the index of what must work."""
    # After the assertions of tests.support are registered for rewriting.
    from tests.conformance.row_index import INDEX, hold_against

    hold_against(config, INDEX)


def pytest_report_header() -> str:
    """Say which of the builds is tested, and where it lies."""
    place = Path(amqpd.__file__).parent
    return f"amqpd {amqpd.__version__} ({amqpd.build_kind()}) in {place}"
