"""What becomes of a load in the runner: figures, or a failure that is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from tests.bench.broker import BrokerFailed, Target
from tests.bench.generator import Generator
from tests.bench.report import OURS, Report
from tests.bench.run import measure
from tests.bench.scenario import Bench, Scenario


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """What cannot measure anything: its generator reports a failure."""
    generator = tmp_path / "amqpload"
    generator.write_text("#!/bin/sh\necho 'lost 3 messages' >&2; exit 1\n")
    generator.chmod(0o755)
    return Bench(Generator(generator, None), None, 0.1, tmp_path, 1)


def test_a_broker_that_does_not_start_is_told_and_the_next_goes_on(
    bench: Bench,
) -> None:
    @contextmanager
    def broken(scenario: Scenario) -> Iterator[Target]:
        raise BrokerFailed("it did not start")
        yield

    report = Report({})
    measure("transient", bench, broken, report)
    assert report.failures == ["transient: it did not start"]
    assert report.runs == {}


def test_a_load_that_loses_messages_has_no_figures(bench: Bench) -> None:
    target = Target(OURS, "amqp://127.0.0.1:1/", (), "")
    report = Report({})
    measure("transient", bench, lambda scenario: nullcontext(target), report)
    (failure,) = report.failures
    assert failure.startswith("transient: ")
    assert "lost 3 messages" in failure
    assert report.runs == {}


def test_what_starts_brokers_itself_leaves_those_of_others_alone(bench: Bench) -> None:
    target = Target("RabbitMQ", "amqp://127.0.0.1:1/", (), "")
    report = Report({})
    measure("tls", bench, lambda scenario: nullcontext(target), report)
    assert report.failures == []
    assert report.runs == {}
