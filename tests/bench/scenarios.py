"""The loads, by name, with what each must reach.

A scenario runs one load against one broker and returns figures, by name; a name ends
in its unit. Limits are the project's own promises for the compiled build, on a machine
with a core for the broker and one for the generator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.bench.backlog import measure_backlog
from tests.bench.broker import Target
from tests.bench.fairness import measure_fairness
from tests.bench.figures import Figures, Limit, at_least, at_most, figures_of
from tests.bench.generator import Generator, Result
from tests.bench.large_body import measure_large_body
from tests.bench.lone_confirm import measure_lone_confirm
from tests.bench.many_queues import measure_many_queues
from tests.bench.polled import measure_polled
from tests.bench.restart import measure_restart
from tests.bench.steady import measure_steady

PERSISTENT_1K: Final = ("--size", "1024", "--persistent", "y")
DURABLE: Final = (
    *(*PERSISTENT_1K, "--confirm", "1000"),
    *("--ack", "manual", "--ack-batch", "100", "--prefetch", "1000"),
)


@dataclass(frozen=True)
class Bench:
    """What a scenario measures with."""

    generator: Generator
    broker_core: int | None
    seconds: float
    #: On the disk that the broker's data lies on.
    directory: Path
    #: Messages of a backlog.
    count: int

    def load(self, target: Target, *arguments: str) -> Result:
        """Run the generator for as long as this bench runs everything."""
        return self.generator.run(target, *arguments, "--seconds", str(self.seconds))


@dataclass(frozen=True)
class Scenario:
    """A load: what it is, how to run it, what it must reach."""

    what: str
    measure: Callable[[Bench, Target], Figures]
    limits: dict[str, Limit] = field(default_factory=dict)


def _transient(bench: Bench, target: Target) -> Figures:
    return figures_of(bench.load(target, "--size", "16"))


def _durable(bench: Bench, target: Target) -> Figures:
    return figures_of(bench.load(target, *DURABLE))


def _durable_polled(bench: Bench, target: Target) -> Figures:
    return measure_polled(
        bench.generator, target, DURABLE, bench.seconds, bench.directory
    )


def _latency(bench: Bench, target: Target) -> Figures:
    paced = ("--rate", "5000", "--latency", "--size", "1024")
    return figures_of(bench.load(target, *paced))


def _lone_confirm(bench: Bench, target: Target) -> Figures:
    return measure_lone_confirm(
        bench.generator, target, bench.broker_core, bench.seconds, bench.directory
    )


def _fanout(bench: Bench, target: Target) -> Figures:
    ten = ("--exchange", "fanout", "--queues", "10", "--consumers", "10")
    return figures_of(bench.load(target, *ten, "--size", "1024"))


def _topic(bench: Bench, target: Target) -> Figures:
    thousand = ("--exchange", "topic", "--bindings", "1000")
    return figures_of(bench.load(target, *thousand, "--size", "1024"))


def _idle(bench: Bench, target: Target) -> Figures:
    result = bench.generator.run(
        target, "--mode", "idle", "--consumers", "2000", "--seconds", "2"
    )
    figures = {"connect_s": float(result["connect_s"])}
    if target.pids:
        broker = result["broker"]
        figures["resident_rise_mb"] = broker["rss_after_mb"] - broker["rss_before_mb"]
        figures["kb_per_connection"] = result["rss_per_connection_kb"]
        figures["idle_cpu_pct"] = result["idle_cpu_pct"]
    return figures


def _large_body(bench: Bench, target: Target) -> Figures:
    return measure_large_body(target)


def _fairness(bench: Bench, target: Target) -> Figures:
    return measure_fairness(bench.generator, target, bench.seconds)


def _fairness_drained(bench: Bench, target: Target) -> Figures:
    return measure_fairness(bench.generator, target, bench.seconds, consumers=1000)


def _backlog(bench: Bench, target: Target) -> Figures:
    return measure_backlog(bench.generator, target, bench.count, 1)


def _backlog_queues(bench: Bench, target: Target) -> Figures:
    return measure_backlog(bench.generator, target, bench.count, 1000)


def _restart(bench: Bench, target: Target) -> Figures:
    return measure_restart(bench.generator, target, bench.count, bench.directory)


def _steady(bench: Bench, target: Target) -> Figures:
    return measure_steady(bench.generator, target, bench.seconds)


def _many_queues(bench: Bench, target: Target) -> Figures:
    return measure_many_queues(bench.generator, target, bench.seconds, bench.directory)


SCENARIOS: Final = {
    "transient": Scenario(
        "1 producer, 1 consumer, 16 B transient, auto-ack",
        _transient,
        {
            "delivered_per_s": at_least(1_000_000),
            "cpu_s_per_million": at_most(0.8),
        },
    ),
    "durable": Scenario(
        "1 producer, 1 consumer, 1 KiB persistent, confirm window 1000, "
        "manual ack every 100, prefetch 1000",
        _durable,
        {"confirmed_per_s": at_least(150_000), "cpu_s_per_million": at_most(5)},
    ),
    "durable_polled": Scenario(
        "the same in a broker of 10,000 queues, with and without a client that lists "
        "them every second",
        _durable_polled,
        {"polled_over_plain": at_most(1.05)},
    ),
    "latency": Scenario(
        "5,000 messages of 1 KiB per second, transient",
        _latency,
        {"latency_p50_us": at_most(200), "latency_p999_us": at_most(5000)},
    ),
    "lone_confirm": Scenario(
        "1 KiB persistent, confirm window 1, beside write and fdatasync of as much",
        _lone_confirm,
        {"confirm_over_bare_sync_p50": at_most(1.5)},
    ),
    "fanout": Scenario("1 producer, fanout to 10 queues, 1 KiB", _fanout),
    "topic": Scenario("topic exchange, 1000 bindings, one matches, 1 KiB", _topic),
    "idle": Scenario(
        "2,000 idle connections with a consumer each",
        _idle,
        {"connect_s": at_most(4), "resident_rise_mb": at_most(100)},
    ),
    "large_body": Scenario(
        "ten consumers of one 64 MiB message, one of them not reading",
        _large_body,
        {"resident_rise_mb": at_most(256)},
    ),
    "fairness": Scenario(
        "a paced connection and one with a 2 s heartbeat beside a flood of 16 B "
        "messages through a fanout of 1,000 queues that nobody reads",
        _fairness,
        {"latency_p99_us": at_most(25_000), "heartbeats_lost": at_most(0)},
    ),
    "fairness_drained": Scenario(
        "the same, each of the 1,000 queues with a consumer on its own connection",
        _fairness_drained,
        {"heartbeats_lost": at_most(0)},
    ),
    "backlog": Scenario(
        "--count messages of 100 B, persistent, into one queue, then drained",
        _backlog,
        {
            "publish_resident_peak_mb": at_most(100),
            "drain_resident_peak_mb": at_most(100),
            "publish_cpu_last_over_first": at_most(1.3),
            "drain_cpu_last_over_first": at_most(1.3),
            "out_of_order": at_most(0),
        },
    ),
    "backlog_queues": Scenario(
        "--count messages of 100 B, persistent, into 1,000 queues in turn, then all "
        "of them drained at once",
        _backlog_queues,
        {
            "publish_resident_peak_mb": at_most(100),
            "drain_resident_peak_mb": at_most(100),
            "drain_read_over_log": at_most(3),
            "drained_over_one_queue": at_least(0.5),
            "out_of_order": at_most(0),
        },
    ),
    "restart": Scenario(
        "--count messages of 1 KiB, persistent: kill -9, start, stop, start",
        _restart,
        {
            "kill_over_empty_s": at_most(0.5),
            "stop_over_empty_s": at_most(0.5),
            "read_after_kill_mb": at_most(32),
            "read_after_stop_mb": at_most(32),
        },
    ),
    "steady": Scenario(
        "20,000 messages of 1 KiB per second, persistent, published and consumed; "
        "then the same with one in 1,000 held unacked",
        _steady,
        {
            "held_over_acked_p99": at_most(2),
            "rewritten_over_published": at_most(0.3),
        },
    ),
    "many_queues": Scenario(
        "10,000 durable queues, each touched twice a second, nobody waits",
        _many_queues,
        {
            "syncs_per_tick": at_most(1.05),
            "start_after_kill_s": at_most(3),
            "start_after_stop_s": at_most(3),
            "descriptors_loaded": at_most(300),
            "descriptors_after_kill": at_most(300),
        },
    ),
}
