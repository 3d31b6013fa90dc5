"""The table of targets: the loads by which this broker is compared with others.

Every row has a letter. The price of a load is the CPU time that all processes of the
broker take per million messages; rates come along, but depend on the machine more than
the price does. "Celery" stands for the properties of a task: ten headers of different
types and seven other properties.
"""

from __future__ import annotations

from typing import Final

from tests.bench.backlog import measure_backlog_1k
from tests.bench.broker import Target
from tests.bench.figures import CPU, Figures, at_least, at_most
from tests.bench.latency import measure_latency
from tests.bench.lone_confirm import measure_lone_confirm
from tests.bench.scenario import Bench, Nearest, Scenario, load
from tests.bench.tls import measure_tls

ACKS: Final = ("--ack", "manual", "--ack-batch", "100", "--prefetch", "1000")
PERSISTENT_1K: Final = ("--size", "1024", "--persistent", "y", *ACKS)
TEN: Final = ("--producers", "10", "--consumers", "10", "--queues", "10")
FANOUT: Final = ("--exchange", "fanout", "--queues", "10", "--consumers", "10")
TOPIC: Final = ("--exchange", "topic", "--bindings", "1000")
HEADERS: Final = ("--exchange", "headers", "--bindings", "100")
CHANNELS: Final = ("--channels", "200", "--queues", "200")

TRANSIENT: Final = load("--size", "16")
DURABLE_LOAD: Final = (*PERSISTENT_1K, "--confirm", "1000")
DURABLE: Final = load(*DURABLE_LOAD)

IDLE_CONNECTIONS: Final = 1000
IDLE_SECONDS_MAX: Final = 2.0


def _backlog_1k(bench: Bench, target: Target) -> Figures:
    return measure_backlog_1k(bench.generator, target, bench.count)


def _tls(bench: Bench, target: Target) -> Figures:
    return measure_tls(target, bench.generator.core, bench.seconds, bench.directory)


def _idle(bench: Bench, target: Target) -> Figures:
    seconds = min(bench.seconds, IDLE_SECONDS_MAX)
    result = bench.generator.run(
        *(target, "--mode", "idle", "--consumers", str(IDLE_CONNECTIONS)),
        *("--seconds", str(seconds)),
    )
    figures = {"connect_s": float(result["connect_s"])}
    if target.pids:
        broker = result["broker"]
        figures["resident_rise_mb"] = broker["rss_after_mb"] - broker["rss_before_mb"]
        figures["kb_per_connection"] = result["rss_per_connection_kb"]
        figures["idle_cpu_pct"] = result["idle_cpu_pct"]
    return figures


TARGETS: Final = {
    "transient": Scenario(
        "1 producer, 1 consumer, 16 B transient, auto-ack",
        TRANSIENT,
        {CPU: at_most(0.45), "delivered_per_s": at_least(1_000_000)},
        letter="a",
        multiples={CPU: 25},
    ),
    "durable": Scenario(
        "1 producer, 1 consumer, 1 KiB persistent, confirm window 1000, "
        "manual ack every 100, prefetch 1000",
        DURABLE,
        {CPU: at_most(3.0), "confirmed_per_s": at_least(150_000)},
        letter="b",
        multiples={CPU: 14},
    ),
    "lone_confirm": Scenario(
        "the same with confirm window 1, beside write and fdatasync of as much",
        measure_lone_confirm,
        {"confirm_p50_us": at_most(250), "confirm_over_bare_sync_p50": at_most(1.5)},
        letter="c",
        is_one_enough=True,
    ),
    "ten": Scenario(
        "10 producers, 10 consumers, 10 queues, 1 KiB persistent, confirm window 100",
        load(*TEN, *PERSISTENT_1K, "--confirm", "100"),
        {CPU: at_most(3.1)},
        letter="d",
        multiples={CPU: 14},
    ),
    "fanout": Scenario(
        "1 producer, fanout to 10 queues, 1 KiB; the price is one of deliveries",
        load(*FANOUT, "--size", "1024"),
        {CPU: at_most(1.2)},
        letter="e",
        multiples={CPU: 10},
    ),
    "topic": Scenario(
        "topic exchange, 1,000 bindings, one matches, 1 KiB",
        load(*TOPIC, "--size", "1024"),
        {CPU: at_most(1.5)},
        letter="f",
        multiples={CPU: 18},
    ),
    "backlog_1k": Scenario(
        "--count messages of 1 KiB, persistent, into one queue, then drained",
        _backlog_1k,
        {
            "publish_cpu_s_per_million": at_most(2.25),
            "drain_cpu_s_per_million": at_most(0.7),
            "publish_resident_peak_mb": at_most(70),
            "drain_resident_peak_mb": at_most(70),
        },
        letter="g",
        multiples={"publish_cpu_s_per_million": 18, "drain_cpu_s_per_million": 18},
    ),
    "latency": Scenario(
        "5,000 messages of 1 KiB per second, transient, beside an echo in C",
        measure_latency,
        {"latency_p50_us": at_most(100), "latency_p999_us": at_most(2000)},
        letter="h",
        multiples={"latency_p50_us": 1, "latency_p999_us": 1},
    ),
    "idle": Scenario(
        f"{IDLE_CONNECTIONS:,} idle connections with a consumer each",
        _idle,
        {"kb_per_connection": at_most(40), "connect_s": at_most(0.3)},
        letter="i",
    ),
    "headers": Scenario(
        "headers exchange, 100 bindings of three arguments, one matches, 1 KiB",
        load(*HEADERS, "--size", "1024"),
        letter="j",
        nearest=Nearest("topic", 2),
    ),
    "celery": Scenario(
        "16 B transient with the properties of Celery, auto-ack",
        load("--size", "16", "--celery"),
        letter="j",
        nearest=Nearest("transient", 2),
    ),
    "body_64k": Scenario(
        "64 KiB transient, auto-ack; the price is compared by the octet",
        load("--size", "65536"),
        letter="j",
        nearest=Nearest("topic", 2, messages=64),
    ),
    "channels": Scenario(
        "200 channels on one connection, a queue each, 16 B transient, auto-ack",
        load(*CHANNELS, "--size", "16"),
        letter="j",
        nearest=Nearest("transient", 2),
    ),
    "round_robin": Scenario(
        "1,000 queues in turn, 16 B transient, auto-ack",
        load("--queues", "1000", "--size", "16"),
        letter="j",
        nearest=Nearest("transient", 2),
    ),
    "tls": Scenario(
        "16 B and 1 KiB transient over TLS, auto-ack, beside the same without",
        _tls,
        {"tls_16b_over_plain": at_most(2), "tls_1k_over_plain": at_most(2)},
        letter="j",
        starts_brokers=True,
    ),
    "pure_transient": Scenario(
        "the pure build: 16 B transient, auto-ack",
        TRANSIENT,
        letter="k",
        multiples={CPU: 2},
        nearest=Nearest("transient", 12),
        is_pure=True,
    ),
    "pure_durable": Scenario(
        "the pure build: 1 KiB persistent, confirm window 1000",
        DURABLE,
        letter="k",
        nearest=Nearest("durable", 3),
        is_pure=True,
    ),
}
