"""`amqpd bench` against a broker: what it measures, what it finds, what it leaves."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pamqp import commands

from amqpd.cli.server import main
from amqpd.testing import AmqpdServer, amqpd_command
from tests.support.http_client import HttpClient
from tests.support.raw_client import Endpoint, RawClient
from tests.support.tls_proxy import TlsProxy


@pytest.fixture(scope="module")
def server() -> Iterator[AmqpdServer]:
    with AmqpdServer(http=True) as running:
        yield running


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def figures(self) -> Any:
        return json.loads(self.out)


Bench = Callable[..., Ended]


@pytest.fixture
def bench(server: AmqpdServer, capsys: pytest.CaptureFixture[str]) -> Bench:
    def run(*words: str, url: str = server.url) -> Ended:
        capsys.readouterr()
        code = main(["bench", "--url", url, *words])
        printed = capsys.readouterr()
        return Ended(code, printed.out, printed.err)

    return run


@pytest.fixture
def client(server: AmqpdServer) -> Iterator[RawClient]:
    with RawClient(Endpoint.from_url(server.url)) as client:
        yield client.open().open_channel()


@pytest.fixture
def queue(client: RawClient) -> Iterator[str]:
    """A queue that is there before the run."""
    client.send_method(1, commands.Queue.Declare(0, "mine"))
    client.expect_method(1, commands.Queue.DeclareOk)
    yield "mine"
    client.send_method(1, commands.Queue.Delete(0, "mine"))
    client.expect_method(1, commands.Queue.DeleteOk)


def names_left(server: AmqpdServer) -> list[str]:
    """Every queue and exchange that bears the generator's name."""
    with HttpClient(server.http_port, "guest", "guest") as admin:
        kinds = [admin.get(f"/api/{kind}") for kind in ("queues", "exchanges")]
    return [
        str(each["name"])
        for kind in kinds
        for each in kind
        if each["name"].startswith("amqpd-bench-")
    ]


# -- what it measures


def test_a_run_prints_totals_rates_latency_and_its_own_cost(bench: Bench) -> None:
    ended = bench("--count", "500", "--confirm", "50", "--persistent", "--verify")
    assert ended.code == 0
    assert re.search(r"^published +500 +[\d,]+ msg/s", ended.out, re.M)
    assert re.search(r"^confirmed +500", ended.out, re.M)
    assert re.search(r"^delivered +500 +[\d,]+ msg/s", ended.out, re.M)
    assert re.search(r"^publish to delivery +p50 .* p99\.9 .* max ", ended.out, re.M)
    assert re.search(r"^publish to confirm +p50 ", ended.out, re.M)
    assert re.search(r"^the generator used \d+% of a core", ended.out, re.M)
    assert "verified: every message arrived once, whole and in order" in ended.out
    assert "note: the broker is on this machine" in ended.out


def test_a_run_ends_with_its_time_and_tells_how_it_goes(bench: Bench) -> None:
    ended = bench("--seconds", "0.5", "--rate", "200", "--ack", "auto")
    assert ended.code == 0
    published = int(re.findall(r"^published +(\d+)", ended.out, re.M)[0])
    assert 0 < published <= 101
    assert re.search(r"\d\.\d s publishing, published [\d,]+/s", ended.err)


def test_json_is_one_object_with_all_fields(bench: Bench) -> None:
    ended = bench("--count", "300", "--confirm", "10", "--verify", "--json", "--quiet")
    figures = ended.figures
    assert (ended.code, ended.err, ended.out.count("\n")) == (0, "", 1)
    assert figures["published"] == figures["confirmed"] == figures["delivered"] == 300
    assert figures["end"] == "complete"
    assert figures["options"]["size"] == 1024
    assert figures["broker"].startswith("amqpd ")
    assert figures["publish_rate"] > 0
    for name in ("latency_us", "confirm_latency_us"):
        values = list(figures[name].values())
        assert values == sorted(values)
        assert values[0] > 0
    assert figures["generator"]["is_same_machine"] is True
    assert figures["generator"]["cpu_s_per_million"] > 0
    assert figures["verify"]["is_fine"] is True
    assert figures["verify"]["lost"] == 0


@pytest.mark.parametrize(
    "words",
    [
        "--exchange fanout --producers 2 --consumers 4 --queues 2 --ack-every 7",
        "--exchange topic --producers 3 --consumers 2 --queues 2 --prefetch 10",
        "--exchange headers --consumers 3 --queues 3 --size 200000 --confirm 5",
        "--exchange direct --producers 2 --consumers 5 --queues 5 --size 16 -a",
        "--queue-type quorum --persistent --confirm 1 --consumers 3",
    ],
)
def test_every_message_arrives_once_whatever_the_way(bench: Bench, words: str) -> None:
    ended = bench("--count", "60", "--verify", "--json", *words.split())
    figures = ended.figures
    asked = figures["options"]
    copies = asked["queues"] if asked["exchange"] == "fanout" else 1
    assert ended.code == 0
    assert figures["delivered"] == 60 * asked["producers"] * copies
    assert figures["verify"]["is_fine"]


def test_what_is_published_without_consumers_can_be_consumed_by_another_run(
    bench: Bench, queue: str
) -> None:
    filled = bench("--consumers", "0", "--count", "100", "--queue", queue, "--json")
    assert (filled.code, filled.figures["left_in_queues"]) == (0, 100)
    assert filled.figures["latency_us"] is None
    drained = bench("--producers", "0", "--count", "100", "--queue", queue, "--json")
    assert (drained.code, drained.figures["delivered"]) == (0, 100)
    assert drained.figures["left_in_queues"] == 0


def test_what_cannot_be_consumed_by_anybody_is_not_waited_for(bench: Bench) -> None:
    ended = bench("--count", "30", "--queues", "3", "--consumers", "1", "--json")
    assert ended.code == 0
    assert (ended.figures["delivered"], ended.figures["left_in_queues"]) == (10, 20)


def test_consuming_alone_ends_with_its_time(bench: Bench, queue: str) -> None:
    ended = bench("--producers", "0", "--seconds", "0.2", "--queue", queue)
    assert ended.code == 0
    assert re.search(r"^delivered +0 ", ended.out, re.M)
    assert "published" not in ended.out


# -- what it finds


def test_a_queue_that_drops_messages_loses_confirmed_ones(bench: Bench) -> None:
    words = ("--queue-args", "x-max-length=5", "--prefetch", "1", "--confirm", "50")
    ended = bench("--count", "1000", "--verify", "--json", *words)
    verdict = ended.figures["verify"]
    lost = 1000 - ended.figures["delivered"]
    assert ended.code == 1
    assert lost > 0
    assert verdict["lost"] == verdict["lost_confirmed"] == lost
    told = bench("--count", "1000", "--verify", *words)
    assert told.code == 1
    assert re.search(r"^[\d,]+ lost, [\d,]+ of them confirmed$", told.out, re.M)


def test_what_the_broker_refuses_is_not_lost(bench: Bench) -> None:
    arguments = "x-max-length=5,x-overflow=reject-publish"
    words = ("--queue-args", arguments, "--prefetch", "1", "--confirm", "50")
    ended = bench("--count", "1000", "--verify", "--json", *words)
    figures = ended.figures
    assert ended.code == 0
    assert figures["nacked"] > 0
    assert figures["nacked"] + figures["confirmed"] == 1000
    assert figures["confirmed"] == figures["delivered"]


def test_a_message_that_somebody_else_published_is_strange(
    bench: Bench, client: RawClient, queue: str
) -> None:
    client.publish_to_queue(queue, b"not of this run, and as long as it likes")
    ended = bench("--count", "20", "--verify", "--queue", queue)
    assert ended.code == 1
    assert "1 strange: not published by this run to that queue" in ended.out


# -- what it leaves


def test_nothing_that_it_declared_is_left(bench: Bench, server: AmqpdServer) -> None:
    bench("--count", "10", "--queues", "3", "--consumers", "1")
    assert names_left(server) == []


def test_a_queue_that_was_there_stays(
    bench: Bench, client: RawClient, queue: str
) -> None:
    assert bench("--count", "10", "--queue", queue).code == 0
    client.send_method(1, commands.Queue.Declare(0, queue, passive=True))
    client.expect_method(1, commands.Queue.DeclareOk)


def test_a_named_queue_that_was_not_there_is_deleted_unless_it_is_kept(
    bench: Bench, client: RawClient
) -> None:
    def is_there() -> bool:
        client.send_method(1, commands.Queue.Declare(0, "new", passive=True))
        if isinstance(client.next_frame().method, commands.Queue.DeclareOk):
            return True
        client.send_method(1, commands.Channel.CloseOk())
        client.open_channel()
        return False

    bench("--count", "10", "--queue", "new")
    assert not is_there()
    bench("--count", "10", "--queue", "new", "--keep")
    assert is_there()
    client.send_method(1, commands.Queue.Delete(0, "new"))
    client.expect_method(1, commands.Queue.DeleteOk)


def test_what_could_not_be_declared_whole_is_deleted(
    bench: Bench, server: AmqpdServer
) -> None:
    ended = bench("--queue-args", "x-max-length=many")
    assert ended.code == 69
    assert "406 PRECONDITION_FAILED - invalid arg 'x-max-length'" in ended.err
    assert names_left(server) == []


@pytest.fixture
def heeded_sigint() -> Iterator[None]:
    """A process that is started now heeds Ctrl-C, wherever the tests were started.

    A shell without job control has what it starts in the background ignore it.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_is_interrupted_tells_the_figures_and_cleans_up(
    server: AmqpdServer, number: signal.Signals, heeded_sigint: None
) -> None:
    command = [*amqpd_command(), "bench", "--url", server.url, "--seconds", "60"]
    command += ["--rate", "100", "--json", "--verify"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert "publishing" in process.stderr.readline()
        process.send_signal(number)
        out, _ = process.communicate(timeout=30)
    figures = json.loads(out)
    assert process.returncode == 130
    assert figures["end"] == "interrupted"
    assert figures["published"] > 0
    assert figures["verify"]["lost"] is None
    assert names_left(server) == []


# -- what goes wrong


def test_a_virtual_host_that_is_missing_is_named(
    bench: Bench, server: AmqpdServer
) -> None:
    ended = bench(url=server.url + "nowhere")
    assert ended.code == 69
    assert "has no virtual host 'nowhere': 530 " in ended.err
    assert "amqpctl add_vhost nowhere" in ended.err


def test_a_wrong_password_is_told_from_a_missing_permission(
    bench: Bench, server: AmqpdServer
) -> None:
    with HttpClient(server.http_port, "guest", "guest") as admin:
        admin.put("/api/users/jane", {"password": "secret", "tags": ""})
    place = f"127.0.0.1:{server.port}"
    wrong = bench(url=f"amqp://jane:wrong@{place}")
    assert wrong.code == 69
    assert "does not let user 'jane' in: 403 ACCESS_REFUSED" in wrong.err
    outside = bench(url=f"amqp://jane:secret@{place}")
    assert outside.code == 69
    assert "does not let 'jane' into '/': 530 " in outside.err
    assert "amqpctl set_permissions -p / jane" in outside.err


def test_a_server_that_speaks_something_else_is_no_broker(
    bench: Bench, server: AmqpdServer
) -> None:
    ended = bench(url=f"amqp://127.0.0.1:{server.http_port}")
    assert ended.code == 69
    assert "does not speak AMQP 0-9-1" in ended.err


def test_who_hangs_up_without_a_word_may_not_be_ready(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        hang_up = threading.Thread(target=lambda: listener.accept()[0].close())
        hang_up.start()
        ended = bench(url=f"amqp://127.0.0.1:{port}")
        hang_up.join()
    assert ended.code == 69
    assert "ends the connection without a word: " in ended.err


def test_a_broker_that_is_lost_on_the_way_leaves_the_figures() -> None:
    with AmqpdServer() as doomed:
        command = [*amqpd_command(), "bench", "--url", doomed.url, "--seconds", "60"]
        with subprocess.Popen(
            [*command, "--rate", "100"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            assert "publishing" in process.stderr.readline()
            doomed.kill()
            out, err = process.communicate(timeout=30)
    assert process.returncode == 70
    assert "\nfailed: the connection to 127.0.0.1:" in out
    assert re.search(r"^published +\d+", out, re.M)
    left = r"queue (amqpd-bench-\w+), exchange \1: still there, .*127\.0\.0\.1:"
    assert re.search(left, err)


def test_what_was_confirmed_is_there_when_a_killed_broker_is_back() -> None:
    words = "--rate 500 --count 700 --persistent --confirm 50 --ack-every 20 --verify"
    with AmqpdServer() as mortal:
        command = [*amqpd_command(), "bench", "--url", mortal.url, "--reconnect"]
        with subprocess.Popen(
            [*command, "--json", *words.split()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            assert "publishing" in process.stderr.readline()
            mortal.kill()
            mortal.start()
            out, _ = process.communicate(timeout=60)
    figures = json.loads(out)
    assert (process.returncode, figures["reconnects"]) == (0, 1)
    assert figures["verify"]["is_fine"]
    assert figures["published"] == 700
    assert 600 < figures["confirmed"] <= figures["delivered"]


def test_a_queue_that_is_deleted_on_the_way_ends_the_run(
    server: AmqpdServer, client: RawClient
) -> None:
    command = [*amqpd_command(), "bench", "--url", server.url, "--seconds", "60"]
    with subprocess.Popen(
        [*command, "--rate", "100", "--queue", "short-lived"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert "publishing" in process.stderr.readline()
        client.send_method(1, commands.Queue.Delete(0, "short-lived"))
        client.expect_method(1, commands.Queue.DeleteOk)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 70
    assert "failed: consumer 1: the broker cancelled the consumer" in out


def test_a_blocked_connection_says_why(bench: Bench) -> None:
    full = {"AMQPD_DISK_FREE_LIMIT": str(1 << 60)}
    with AmqpdServer(env=full) as server:
        ended = bench("--seconds", "0.5", url=server.url)
    assert ended.code == 0
    assert re.search(r"publishing, .*, blocked: low on disk", ended.err)
    assert re.search(r"note: the broker blocked publishers for [\d.]+ s: ", ended.out)


# -- over TLS


def test_over_tls_every_message_arrives_once(
    bench: Bench,
    server: AmqpdServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with TlsProxy(server.port, tmp_path) as proxy:
        monkeypatch.setenv("SSL_CERT_FILE", str(proxy.ca_path))
        words = ("--count", "2000", "--confirm", "200", "--verify", "--json")
        ended = bench(*words, url=f"amqps://localhost:{proxy.port}")
    assert ended.code == 0
    assert ended.figures["delivered"] == 2000


def test_a_certificate_that_nobody_vouches_for_is_refused(
    bench: Bench, server: AmqpdServer, tmp_path: Path
) -> None:
    with TlsProxy(server.port, tmp_path) as proxy:
        ended = bench(url=f"amqps://localhost:{proxy.port}")
    assert ended.code == 69
    assert "certificate verify failed" in ended.err
    assert "SSL_CERT_FILE" in ended.err


# -- on a terminal


def test_on_a_terminal_progress_is_drawn_and_wiped(server: AmqpdServer) -> None:
    ours, theirs = pty.openpty()
    command = [*amqpd_command(), "bench", "--url", server.url, "--seconds", "0.5"]
    with subprocess.Popen(
        [*command, "--rate", "50"], stdout=subprocess.PIPE, stderr=theirs
    ) as process:
        os.close(theirs)
        drawn = _all_of(ours)
        assert process.stdout is not None
        out = process.stdout.read().decode()
    os.close(ours)
    assert process.returncode == 0
    assert "publishing, " in drawn
    assert "the generator uses" in drawn
    assert out.startswith("amqpd ")


def _all_of(terminal: int) -> str:
    data = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:
            # The other end is closed.
            return data.decode()
        data += part
