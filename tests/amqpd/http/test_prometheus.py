"""`/metrics`: the figures, and the endpoint that asks the loop for them."""

from __future__ import annotations

import asyncio
import socket
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from pamqp import commands

from amqpd.broker.queues.pager import MemoryBudgets
from amqpd.http.prometheus import CONNECTIONS_MAX, MetricsEndpoint
from amqpd.http.room import Identity
from amqpd.http.store_metrics import StoreFigures
from tests.support.connection_pair import Bench, method
from tests.support.content import PERSISTENT_PROPERTIES, publish
from tests.support.delayed import DelayedExchange
from tests.support.waiting import eventually

IDENTITY = Identity("amqpd@here", "blue", "0.1", "3.13.7", Path("/data"), 1_000)


@dataclass
class Ticks:
    """What a ticker would say."""

    turn_seconds_max: float = 0.25
    busy_seconds_max: float = 0.5
    wait_seconds: float = 1.5

    def now_ms(self) -> int:
        """The time."""
        return 2_500


@pytest.fixture
def bench(fast_path: Path) -> Iterator[Bench]:
    bench = Bench(fast_path, budgets=MemoryBudgets(100_000, 200_000))
    yield bench
    bench.close()


@pytest.fixture
async def endpoint(bench: Bench) -> AsyncIterator[MetricsEndpoint]:
    endpoint = MetricsEndpoint(bench.broker, Ticks(), IDENTITY)
    yield endpoint
    await endpoint.stop()


def figures(bench: Bench) -> dict[str, float]:
    """Every sample, by its name and the values of its labels."""
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for metric in StoreFigures(bench.broker, Ticks()).read()
        for sample in metric.samples
    }


def get(address: str, port: int, path: str = "/metrics") -> str:
    url = f"http://{address}:{port}{path}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        text = answer.read().decode()
    assert isinstance(text, str)
    return text


def test_what_is_published_is_waited_for_written_and_held(bench: Bench) -> None:
    pair = bench.connect()
    pair.declare("q", durable=True)
    pair.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
    before = figures(bench)
    pair.send(publish("q", bytes(5000), properties=PERSISTENT_PROPERTIES))
    assert figures(bench)["amqpd_store_confirms_waiting"] == 1
    bench.sync()
    after = figures(bench)
    assert after["amqpd_store_confirms_waiting"] == 0
    for name, least in (
        ("amqpd_store_written_bytes_total messages", 5000),
        ("amqpd_store_syncs_total messages", 1),
        ("amqpd_store_memory_bytes in_log", 5000),
        ("amqpd_store_log_bytes messages", 5000),
    ):
        assert after[name] - before[name] >= least, name
    assert after["amqpd_store_memory_bytes in_memory_only"] == 0


def test_what_waits_at_an_exchange_is_counted(bench: Bench) -> None:
    delayed = DelayedExchange(bench)
    name = "amqpd_exchange_messages_delayed / x"
    assert figures(bench)[name] == 0
    delayed.publish(b"later", 5000)
    assert figures(bench)[name] == 1
    bench.pass_time(5000)
    assert figures(bench)[name] == 0


def test_what_is_settled_is_garbage_and_what_never_was_written_is_elided(
    bench: Bench,
) -> None:
    pair = bench.connect()
    pair.declare("q", durable=True)
    pair.send(publish("q", bytes(5000), properties=PERSISTENT_PROPERTIES))
    bench.sync()
    before = figures(bench)
    pair.send(publish("q", b"x", properties=PERSISTENT_PROPERTIES))
    pair.call(1, commands.Queue.Purge(0, "q"), commands.Queue.PurgeOk)
    bench.sync()
    after = figures(bench)
    ratio = "amqpd_store_garbage_ratio messages"
    assert before[ratio] < after[ratio] <= 1
    assert after["amqpd_store_elided_writes_total messages"] == 1


def test_sync_times_are_a_histogram(bench: Bench) -> None:
    bench.store.statistics.observe_sync(0.002)
    found = figures(bench)
    assert found["amqpd_store_sync_seconds_bucket 0.001"] == 0
    assert found["amqpd_store_sync_seconds_bucket 0.0025"] == 1
    assert found["amqpd_store_sync_seconds_bucket +Inf"] == 1
    assert found["amqpd_store_sync_seconds_count"] == 1
    assert found["amqpd_store_sync_seconds_sum"] == 0.002


def test_what_others_measure_is_told(bench: Bench) -> None:
    found = figures(bench)
    assert found["amqpd_store_confirm_wait_seconds"] == 1.5
    assert found["amqpd_store_turn_max_seconds"] == 0.25
    assert found["amqpd_loop_busy_seconds_max"] == 0.5
    assert found["amqpd_store_memory_budget_bytes in_log"] == 100_000
    assert found["amqpd_store_memory_budget_bytes all"] == 200_000


def test_both_logs_have_their_counters(bench: Bench) -> None:
    bench.store.statistics.merges += 2
    bench.paging.statistics.cold_loads += 3
    found = figures(bench)
    assert found["amqpd_store_merges_total messages"] == 2
    assert found["amqpd_store_merges_total paging"] == 0
    assert found["amqpd_store_cold_loads_total paging"] == 3


def test_ages_are_those_of_the_oldest_of_all_queues(bench: Bench) -> None:
    pair = bench.connect()
    pair.declare("q")
    pair.declare("other")
    pair.send(publish("q", b"1"), publish("q", b"2"))
    bench.pass_time(2000)
    pair.send(publish("other", b"3"))
    pair.send(method(1, commands.Basic.Get(0, "q")))
    bench.pass_time(1000)
    found = figures(bench)
    assert found["amqpd_oldest_ready_message_age_seconds"] == 3
    assert found["amqpd_oldest_unacked_message_age_seconds"] == 3
    assert found["amqpd_oldest_unacked_delivery_age_seconds"] == 1
    assert found["amqpd_store_memory_bytes unacked"] > 0


def test_no_message_has_no_age(bench: Bench) -> None:
    bench.connect().declare("q")
    bench.pass_time(5000)
    found = figures(bench)
    for name in ("ready_message", "unacked_message", "unacked_delivery"):
        assert found[f"amqpd_oldest_{name}_age_seconds"] == 0


def test_times_in_queue_are_a_histogram(bench: Bench) -> None:
    pair = bench.connect()
    pair.declare("q")
    pair.send(publish("q", b"1"))
    bench.pass_time(2500)
    pair.send(method(1, commands.Basic.Get(0, "q", True)))
    found = figures(bench)
    assert found["amqpd_message_time_in_queue_seconds_bucket 1.0"] == 0
    assert found["amqpd_message_time_in_queue_seconds_bucket 5.0"] == 1
    assert found["amqpd_message_time_in_queue_seconds_count"] == 1
    assert found["amqpd_message_time_in_queue_seconds_sum"] == 2.5


async def test_a_scrape_is_answered_with_text(endpoint: MetricsEndpoint) -> None:
    port = endpoint.listen("127.0.0.1", 0)
    text = await asyncio.to_thread(get, "127.0.0.1", port)
    assert "# TYPE amqpd_store_sync_seconds histogram\n" in text
    assert "\namqpd_store_confirm_wait_seconds 1.5\n" in text
    assert "\nprocess_resident_memory_bytes " in text


async def test_both_families_have_the_same_port(endpoint: MetricsEndpoint) -> None:
    port = endpoint.listen("0.0.0.0", 0)
    assert endpoint.listen("::", port) == port
    for address in ("127.0.0.1", "[::1]"):
        assert "amqpd_store_" in await asyncio.to_thread(get, address, port)


async def test_a_port_that_is_taken_is_refused(endpoint: MetricsEndpoint) -> None:
    port = endpoint.listen("127.0.0.1", 0)
    with pytest.raises(OSError, match="in use"):
        endpoint.listen("127.0.0.1", port)


async def test_nobody_listens_after_the_end(bench: Bench) -> None:
    endpoint = MetricsEndpoint(bench.broker, Ticks(), IDENTITY)
    port = endpoint.listen("127.0.0.1", 0)
    await endpoint.stop()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_objects_are_told_on_request(
    bench: Bench, endpoint: MetricsEndpoint
) -> None:
    bench.connect().declare("q")
    port = endpoint.listen("127.0.0.1", 0)
    plain = await asyncio.to_thread(get, "127.0.0.1", port)
    assert "rabbitmq_queues 1.0" in plain
    assert 'queue="q"' not in plain
    path = "/metrics/per-object"
    all_of_them = await asyncio.to_thread(get, "127.0.0.1", port, path)
    assert 'rabbitmq_queue_messages{queue="q",vhost="/"} 0.0' in all_of_them
    assert "rabbitmq_connection_channels" in all_of_them
    path = "/metrics/detailed?family=queue_coarse_metrics&family=nothing&vhost=%2F"
    some = await asyncio.to_thread(get, "127.0.0.1", port, path)
    assert 'rabbitmq_detailed_queue_messages{queue="q",vhost="/"} 0.0' in some
    assert "connection_channels" not in some


async def test_who_comes_when_many_are_there_is_sent_away(
    endpoint: MetricsEndpoint,
) -> None:
    port = endpoint.listen("127.0.0.1", 0)

    def is_served_after(others: int) -> bool:
        with ExitStack() as stack:
            for _ in range(others):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
            try:
                return "amqpd_" in get("127.0.0.1", port)
            except OSError:
                return False

    assert not await asyncio.to_thread(is_served_after, CONNECTIONS_MAX)
    await asyncio.to_thread(eventually, lambda: is_served_after(CONNECTIONS_MAX - 1))
