"""All loads, by name: those of the table of targets, and those of single promises."""

from __future__ import annotations

from typing import Final

from tests.bench.backlog import measure_backlog
from tests.bench.broker import Target
from tests.bench.fairness import measure_fairness
from tests.bench.figures import Figures, at_least, at_most
from tests.bench.large_body import measure_large_body
from tests.bench.many_queues import measure_many_queues
from tests.bench.mixed import measure_mixed
from tests.bench.polled import measure_polled
from tests.bench.restart import measure_restart
from tests.bench.scenario import Bench, Scenario
from tests.bench.steady import measure_steady
from tests.bench.targets import DURABLE_LOAD, TARGETS


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


def _mixed(bench: Bench, target: Target) -> Figures:
    return measure_mixed(bench.generator, target, bench.seconds)


def _durable_polled(bench: Bench, target: Target) -> Figures:
    return measure_polled(
        bench.generator, target, DURABLE_LOAD, bench.seconds, bench.directory
    )


def _many_queues(bench: Bench, target: Target) -> Figures:
    return measure_many_queues(bench.generator, target, bench.seconds, bench.directory)


OTHERS: Final = {
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
    "mixed": Scenario(
        "all kinds of load at once, connections and queues that come and go, backlogs "
        "that build and drain: a line a minute",
        _mixed,
        {
            "resident_end_over_first": at_most(1.05),
            "latency_p50_last_over_first": at_most(1.25),
        },
    ),
    "durable_polled": Scenario(
        "durable, in a broker of 10,000 queues, with and without a client that lists "
        "them every second",
        _durable_polled,
        {"polled_over_plain": at_most(1.05)},
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

SCENARIOS: Final = TARGETS | OTHERS
