"""`--prometheus-port`: a real broker is scraped."""

from __future__ import annotations

import socket
import urllib.request

import pytest
from pamqp import commands

from amqpd.testing import AmqpdServer, ServerFailed
from tests.support.content import PERSISTENT_PROPERTIES, publish
from tests.support.ports import held_port
from tests.support.raw_client import Endpoint, RawClient


def scrape(port: int) -> dict[str, float]:
    url = f"http://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name: float(value) for name, value in pairs}


def publish_confirmed(server: AmqpdServer, count: int) -> None:
    with RawClient(Endpoint.from_url(server.url)) as client:
        client.open().open_channel()
        client.call(
            1, commands.Queue.Declare(0, "q", durable=True), commands.Queue.DeclareOk
        )
        client.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
        message = publish("q", bytes(1000), properties=PERSISTENT_PROPERTIES)
        for _ in range(count):
            client.send_bytes(message)
            client.expect_method(1, commands.Basic.Ack)


def test_the_figures_move_and_two_brokers_have_their_own() -> None:
    busy, idle = held_port(), held_port()
    with (
        AmqpdServer(args=["--prometheus-port", str(busy)]) as server,
        AmqpdServer(args=["--prometheus-port", str(idle)]),
        AmqpdServer(),
    ):
        before = scrape(busy)
        publish_confirmed(server, 10)
        after, other = scrape(busy), scrape(idle)
    written = 'amqpd_store_written_bytes_total{log="messages"}'
    syncs = 'amqpd_store_syncs_total{log="messages"}'
    timed = "amqpd_store_sync_seconds_count"
    assert after[written] - before[written] >= 10 * 1000
    assert after[syncs] - before[syncs] >= 10
    assert after[timed] - before[timed] >= 10
    assert after["amqpd_store_sync_seconds_sum"] > 0
    assert after["amqpd_store_turn_max_seconds"] > 0
    assert after["amqpd_loop_busy_seconds_max"] > 0
    assert after["amqpd_store_confirms_waiting"] == 0
    assert other[written] < 1000


def test_a_metrics_port_that_is_taken_ends_with_69() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        starting = AmqpdServer(args=["--prometheus-port", str(port)])
        with pytest.raises(ServerFailed) as caught:
            starting.start()
        assert caught.value.exit_code == 69
        assert f"cannot listen on 127.0.0.1 port {port}" in starting.log
        assert "--prometheus-port" in starting.log
        starting.close()
