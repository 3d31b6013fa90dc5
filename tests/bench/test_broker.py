"""What a broker that was started says in its log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.broker import BrokerFailed, BrokerProcess, Target


def test_the_longest_busy_time_is_what_the_log_says_at_the_end(tmp_path: Path) -> None:
    process = BrokerProcess("amqpd", None, tmp_path)
    log = tmp_path / "log"
    log.write_text("listens\nthe loop was busy for 12.5 ms at most in one go\nbye\n")
    assert process.loop_busy_ms() == 12.5


def test_a_broker_that_was_killed_has_said_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("listens\n")
    assert BrokerProcess("amqpd", None, tmp_path).loop_busy_ms() is None


def test_only_a_broker_of_our_own_is_restarted() -> None:
    with pytest.raises(BrokerFailed, match="lavinmq"):
        _ = Target("lavinmq", "amqp://127.0.0.1/", (), "").process
