"""The process as its operator sees it: the start, the signals, the exit codes."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import commands

import amqpd
from amqpd.config import load
from amqpd.launcher import tick_seconds
from amqpd.testing import AmqpdServer, ServerFailed
from tests.bench.broker import BUSY_LINE
from tests.support.raw_client import Endpoint, RawClient

HOME = str(Path(amqpd.__file__).resolve().parent.parent)


@pytest.fixture
def server() -> Iterator[AmqpdServer]:
    with AmqpdServer() as running:
        yield running


def client_of(server: AmqpdServer) -> RawClient:
    return RawClient(Endpoint.from_url(server.url))


def end_of(ending: AmqpdServer) -> tuple[int, str]:
    """Return exit code and log of a broker that cannot start."""
    with pytest.raises(ServerFailed) as caught:
        ending.start()
    assert caught.value.exit_code is not None
    return caught.value.exit_code, ending.log


def wait_for_log(server: AmqpdServer, text: str) -> None:
    """Return when the log contains the text; fail when it does not in time."""
    deadline = time.monotonic() + 10
    while text not in server.log:
        assert time.monotonic() < deadline, f"no {text!r} in:\n{server.log}"
        time.sleep(0.01)


def run_serve(*arguments: str, env: dict[str, str]) -> subprocess.Popen[str]:
    bootstrap = (
        f"import sys; sys.path.insert(0, {HOME!r}); import amqpd.cli.server as s"
    )
    return subprocess.Popen(
        [
            *(sys.executable, "-c", bootstrap + "; sys.exit(s.main())", "serve"),
            *("--http-port", "0", "--prometheus-port", "0", *arguments),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"], **env},
    )


def test_standard_output_is_one_line(tmp_path: Path) -> None:
    process = run_serve("--port", "0", "--data-dir", str(tmp_path), env={})
    assert process.stdout is not None
    line = process.stdout.readline()
    process.terminate()
    rest, _ = process.communicate(timeout=20)
    assert line.startswith(f"Server startup complete; amqpd {amqpd.__version__} (")
    assert f"data in {tmp_path};" in line
    assert "0 queues and 0 messages recovered" in line
    assert rest == ""
    assert process.returncode == 0


def test_localhost_is_both_loopbacks_on_one_port(tmp_path: Path) -> None:
    process = run_serve("--port", "0", "--data-dir", str(tmp_path), env={})
    assert process.stdout is not None
    line = process.stdout.readline()
    port = int(line.split("127.0.0.1:")[1].split(",")[0].split(";")[0])
    hosts = ["127.0.0.1", "::1"] if "[::1]" in line else ["127.0.0.1"]
    for host in hosts:
        socket.create_connection((host, port), 5).close()
    process.terminate()
    process.communicate(timeout=20)
    assert process.returncode == 0


def test_a_host_may_be_repeated() -> None:
    with AmqpdServer(args=("--host", "127.0.0.2")) as server:
        for host in ("127.0.0.1", "127.0.0.2"):
            socket.create_connection((host, server.port), 5).close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_closes_every_client_with_320(
    server: AmqpdServer, number: signal.Signals
) -> None:
    with client_of(server) as first, client_of(server) as second:
        first.open()
        second.open().open_channel()
        os.kill(server.pid, number)
        for client in (first, second):
            closed = client.expect_close(0)
            assert (closed.level, closed.code) == ("connection", 320)
            reason = "broker forced connection closure with reason 'shutdown'"
            assert closed.text == f"CONNECTION_FORCED - {reason}"
            client.expect_end()
    assert server.wait() == 0


def test_the_kernel_has_room_for_a_thousand_clients_from_the_start(
    server: AmqpdServer,
) -> None:
    status = Path(f"/proc/{server.pid}/status").read_text()
    room = int(status.partition("FDSize:")[2].split()[0])
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert room >= min(1024, most)


def test_how_long_the_loop_was_busy_is_told_at_the_end(server: AmqpdServer) -> None:
    with client_of(server) as client:
        client.open()
        client.close()
    server.stop()
    found = BUSY_LINE.search(server.log)
    assert found is not None
    assert float(found[1]) > 0


def test_a_client_that_never_answers_does_not_stop_the_stop(
    server: AmqpdServer,
) -> None:
    with client_of(server) as client:
        client.open()
        assert server.stop() == 0


def test_what_was_declared_and_published_is_there_after_a_stop(
    server: AmqpdServer,
) -> None:
    with client_of(server) as client:
        client.open().open_channel()
        declare = commands.Queue.Declare(0, "kept", durable=True)
        client.call(1, declare, commands.Queue.DeclareOk)
        publish = commands.Basic.Publish(0, "", "kept")
        client.publish(1, publish, b"hi", properties=b"\x10\x00\x02")
        client.close()
    server.restart()
    with client_of(server) as client:
        client.open().open_channel()
        declare = commands.Queue.Declare(0, "kept", passive=True)
        answer = client.call(1, declare, commands.Queue.DeclareOk)
        assert answer.message_count == 1


def test_what_is_transient_is_gone_after_a_stop(server: AmqpdServer) -> None:
    queues = (("kept", True), ("transient", False))
    with client_of(server) as client:
        client.open().open_channel()
        for name, durable in queues:
            declare = commands.Queue.Declare(0, name, durable=durable)
            client.call(1, declare, commands.Queue.DeclareOk)
            client.publish_to_queue(name, b"transient")
        client.close()
    server.restart()
    with client_of(server) as client:
        client.open().open_channel()
        passive = commands.Queue.Declare(0, "kept", passive=True)
        answer = client.call(1, passive, commands.Queue.DeclareOk)
        assert answer.message_count == 0
        passive = commands.Queue.Declare(0, "transient", passive=True)
        client.send_method(1, passive)
        assert client.expect_close(1).code == 404


def test_a_port_that_is_taken_ends_with_69() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        starting = AmqpdServer(port=taken.getsockname()[1])
        code, log = end_of(starting)
        assert code == 69
        assert f"port {starting.port}" in log
        starting.close()


def test_a_data_directory_in_use_ends_with_75(server: AmqpdServer) -> None:
    second = AmqpdServer(data_dir=server.data_dir)
    code, log = end_of(second)
    assert code == 75
    assert str(server.data_dir) in log
    second.close()


def test_a_data_directory_of_another_version_ends_with_65(server: AmqpdServer) -> None:
    server.stop()
    (server.data_dir / "VERSION").write_text("999\n")
    code, log = end_of(server)
    assert code == 65
    assert "999" in log


def test_definitions_that_cannot_be_read_end_with_78(tmp_path: Path) -> None:
    path = tmp_path / "definitions.json"
    path.write_text("{")
    starting = AmqpdServer(env={"AMQPD_LOAD_DEFINITIONS": str(path)})
    code, log = end_of(starting)
    assert code == 78
    assert str(path) in log
    starting.close()


def test_a_failed_sync_ends_with_74_and_confirms_nothing(tmp_path: Path) -> None:
    # The file system is the one module that stays interpreted for this.
    failing = tmp_path / "failing.py"
    failing.write_text(
        "import errno, os, sys\n"
        f"sys.path.insert(0, {HOME!r})\n"
        "import store.filesystem\n"
        "real = store.filesystem.OsFileSystem.sync\n"
        "def sync(self, descriptor):\n"
        f"    if os.path.exists({str(tmp_path / 'broken')!r}):\n"
        "        raise OSError(errno.EIO, 'the disk is broken')\n"
        "    real(self, descriptor)\n"
        "store.filesystem.OsFileSystem.sync = sync\n"
        "from amqpd.cli.server import main\n"
        "sys.exit(main())\n"
    )
    with AmqpdServer(command=(sys.executable, str(failing))) as server:
        with client_of(server) as client:
            client.open().open_channel()
            declare = commands.Queue.Declare(0, "jobs", durable=True)
            client.call(1, declare, commands.Queue.DeclareOk)
            client.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
            (tmp_path / "broken").touch()
            publish = commands.Basic.Publish(0, "", "jobs")
            client.publish(1, publish, b"hi", properties=b"\x10\x00\x02")
            client.expect_method(1, commands.Basic.Nack)
            assert client.expect_close(0).code == 541
        assert server.wait() == 74


def test_a_reload_applies_the_log_level(tmp_path: Path) -> None:
    path = tmp_path / "amqpd.toml"
    path.write_text('[log]\nlevel = "error"\n')
    with AmqpdServer(args=("--config", str(path))) as server:
        assert "listens on" not in server.log
        path.write_text('frame_max = 8192\n[log]\nlevel = "info"\n')
        os.kill(server.pid, signal.SIGHUP)
        wait_for_log(server, "the configuration is reloaded")
        assert f"{path}:1: frame_max changes with a restart only" in server.log


def test_a_reload_of_a_broken_file_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "amqpd.toml"
    path.write_text("")
    with AmqpdServer(args=("--config", str(path))) as server:
        path.write_text("[log]\nlevel = 1\n")
        os.kill(server.pid, signal.SIGHUP)
        wait_for_log(server, f"the configuration is not reloaded: {path}:2: log.level")
        socket.create_connection(("127.0.0.1", server.port), 5).close()


def test_json_logs_are_one_object_a_line_and_name_the_connection() -> None:
    with AmqpdServer(args=("--log-format", "json")) as server:
        with client_of(server) as client:
            client.open().close()
        server.stop()
        lines = [json.loads(line) for line in server.log.splitlines()]
    assert {line["level"] for line in lines} == {"info"}
    of_the_client = [line for line in lines if "connection" in line]
    assert [line["message"].split(": ")[1].split()[0] for line in of_the_client] == [
        "accepted",
        "user",
        "closed",
    ]
    (name,) = {line["connection"] for line in of_the_client}
    assert name.endswith(f" -> 127.0.0.1:{server.port}")
    assert of_the_client[1]["user"] == "guest"


def test_the_default_user_of_the_environment_may_log_in() -> None:
    env = {
        "RABBITMQ_DEFAULT_USER": "ann",
        "RABBITMQ_DEFAULT_PASS": "s3cret",
        "RABBITMQ_DEFAULT_VHOST": "shop",
    }
    with AmqpdServer(env=env) as server:
        endpoint = Endpoint("127.0.0.1", server.port, "ann", "s3cret", "shop")
        with RawClient(endpoint) as client:
            client.open().open_channel()
            client.close()


def test_the_identity_can_be_our_own() -> None:
    config = 'cluster_name = "blue"\n[compat]\nidentity = "amqpd"\n'
    with AmqpdServer(config=config) as server, client_of(server) as client:
        properties = client.start().server_properties
        assert properties["product"] == "amqpd"
        assert properties["cluster_name"] == "blue"
        assert properties["version"] == amqpd.__version__


def test_the_limits_are_what_the_configuration_says() -> None:
    config = "frame_max = 4096\nchannel_max = 7\nheartbeat_s = 3\n"
    with AmqpdServer(config=config) as server, client_of(server) as client:
        tune = client.login()
        assert (tune.frame_max, tune.channel_max, tune.heartbeat) == (4096, 7, 3)


def test_what_the_configuration_ignores_is_in_the_log(tmp_path: Path) -> None:
    path = tmp_path / "rabbitmq.conf"
    path.write_text("vm_memory_high_watermark_paging_ratio = 0.4\n")
    with AmqpdServer(args=("--config", str(path))) as server:
        assert "vm_memory_high_watermark_paging_ratio has no effect" in server.log


def test_ping_finds_a_running_broker(server: AmqpdServer) -> None:
    from amqpd.cli.ping import ping

    ping("127.0.0.1", server.port)


@pytest.mark.parametrize(
    ("sync", "seconds"), [("tick", 0.04), ("off", 1.0), ("always", 0.0)]
)
def test_what_nobody_waits_for_stays_for_a_tick_unless_it_always_syncs(
    sync: str, seconds: float
) -> None:
    flags = {"store.sync": sync, "store.sync_interval_ms": "40"}
    assert tick_seconds(load(None, {}, flags).config) == seconds
