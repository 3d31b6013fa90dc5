"""`amqpd store` beside a real broker: refused while it runs, sound after any end."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pika
import pytest

from amqpd.testing import AmqpdServer, amqpd_command

MESSAGES: Final = 2000
TAKEN: Final = 1200
HELD_ONE_IN: Final = 100
QUEUE: Final = "jobs"
BODY: Final = b"x" * 300


def store(action: str, place: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [*amqpd_command(), "store", action, str(place), *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def server(filled: AmqpdServer) -> AmqpdServer:
    """The broker, running; what a test does to its directory, the next ones find."""
    if not filled.is_running:
        filled.start()
    return filled


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpdServer]:
    """A broker whose segments are small: a few hundred messages fill one."""
    small = {"AMQPD_STORE_SEGMENT_SIZE": "65536"}
    data_dir = tmp_path_factory.mktemp("store") / "data"
    with AmqpdServer(data_dir=data_dir, env=small) as running:
        with pika.BlockingConnection(pika.URLParameters(running.url)) as connection:
            channel = connection.channel()
            channel.queue_declare(QUEUE, durable=True)
            persistent = pika.BasicProperties(delivery_mode=2)
            for _ in range(MESSAGES - 1):
                channel.basic_publish("", QUEUE, BODY, persistent)
            # Its confirm comes when all are on the disk.
            channel.confirm_delivery()
            channel.basic_publish("", QUEUE, BODY, persistent)
            take_some(channel)
        yield running


def take_some(channel: Any) -> None:
    """Ack the first messages but for a few, which go back when the channel ends."""
    for number, (method, _, _) in enumerate(channel.consume(QUEUE), start=1):
        if number % HELD_ONE_IN:
            channel.basic_ack(method.delivery_tag)
        if number == TAKEN:
            return


def count_in(url: str) -> int:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        declared = connection.channel().queue_declare(QUEUE, passive=True)
        return int(declared.method.message_count)


def test_a_directory_in_use_is_refused(server: AmqpdServer) -> None:
    for action in ("inspect", "verify", "repair"):
        ended = store(action, server.data_dir)
        assert ended.returncode == 2
        assert "another process has the data directory" in ended.stderr


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_a_broker_leaves_is_sound_and_counted(
    server: AmqpdServer, is_killed: bool
) -> None:
    if is_killed:
        server.kill()
    else:
        server.stop()
    verified = store("verify", server.data_dir)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "damaged" not in verified.stdout
    inspected = store("inspect", server.data_dir, "--json")
    assert inspected.returncode == 0
    found = json.loads(inspected.stdout)
    (queue,) = found["queues"]
    assert queue["messages"] == sum(one["messages"] for one in found["segments"])
    server.start()
    assert count_in(server.url) == queue["messages"]
    # Acks that a kill came before may be lost; confirmed messages may not.
    assert queue["messages"] >= MESSAGES - TAKEN + TAKEN // HELD_ONE_IN


def test_a_damaged_directory_is_repaired_and_served_again(server: AmqpdServer) -> None:
    server.stop()
    log = server.data_dir / "log"
    for path in log.glob("checkpoint.*"):
        path.write_bytes(b"nothing of use")
    segment = max(log.glob("*.seg"), key=lambda path: path.stat().st_size)
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0xFF
    segment.write_bytes(data)

    assert store("verify", server.data_dir).returncode == 1
    repaired = store("repair", server.data_dir)
    assert repaired.returncode == 0, repaired.stdout + repaired.stderr
    assert store("verify", server.data_dir).returncode == 0
    server.start()
    assert count_in(server.url) >= MESSAGES - TAKEN + TAKEN // HELD_ONE_IN - 1
