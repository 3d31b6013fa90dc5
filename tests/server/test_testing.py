"""`amqpd.testing` as another project uses it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pamqp import commands

import amqpd
from amqpd.testing import AmqpdServer, ServerFailed, amqpd_server
from tests.support.raw_client import Endpoint, RawClient

HOME = str(Path(amqpd.__file__).resolve().parent.parent)

#: A project whose modules have our names, and a test that uses both.
PROJECT = {
    "store/__init__.py": "SHELF = 'books'\n",
    "routing.py": "ROUTE = 'to the shop'\n",
    "confirms.py": "YES = True\n",
    "test_shop.py": """
import socket
from urllib.parse import urlsplit

import confirms
import routing
import store
from amqpd.testing import amqpd_server as run_broker


def connect(url):
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), 5) as connection:
        connection.sendall(b"AMQP\\x00\\x00\\x09\\x01")
        assert connection.recv(1) == b"\\x01"


def test_ours_are_ours():
    assert (store.SHELF, routing.ROUTE, confirms.YES) == ("books", "to the shop", True)


def test_the_context_manager():
    with run_broker() as url:
        connect(url)


def test_the_fixtures(amqp_url, amqpd_server):
    assert amqp_url == amqpd_server.url
    connect(amqp_url)
    amqpd_server.kill()
    amqpd_server.start()
    connect(amqp_url)
""",
    "test_scope.py": """
pids = []


def test_first(amqpd_server):
    pids.append(amqpd_server.pid)


def test_second(amqpd_server):
    assert (amqpd_server.pid == pids[0]) == IS_SHARED
""",
}


def run_pytest(directory: Path) -> subprocess.CompletedProcess[str]:
    """Run another project's tests with amqpd as one of its packages."""
    return subprocess.run(
        # "-p" loads the plugin where amqpd is not installed; twice does no harm.
        [sys.executable, "-m", "pytest", "-p", "amqpd.pytest_plugin"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": HOME, "PYTHONSAFEPATH": ""},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_a_project_may_have_modules_of_our_names(tmp_path: Path) -> None:
    for name, text in PROJECT.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        # Unless it is said, every test has a broker of its own.
        path.write_text(text.replace("IS_SHARED", "False"))
    ended = run_pytest(tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "5 passed" in ended.stdout


def test_a_suite_may_share_one_broker(tmp_path: Path) -> None:
    text = PROJECT["test_scope.py"].replace("IS_SHARED", "True")
    (tmp_path / "test_scope.py").write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\namqpd_server_scope = session\n")
    ended = run_pytest(tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def declare(url: str, passive: bool) -> None:
    with RawClient(Endpoint.from_url(url)) as client:
        client.open().open_channel()
        method = commands.Queue.Declare(0, "kept", durable=True, passive=passive)
        client.call(1, method, commands.Queue.DeclareOk)


def test_the_context_manager_yields_a_url_that_works() -> None:
    with amqpd_server() as url:
        declare(url, passive=False)
        port = Endpoint.from_url(url).port
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), 5)


def test_a_killed_broker_starts_again_with_its_data_on_its_port() -> None:
    with AmqpdServer() as server:
        url = server.url
        declare(url, passive=False)
        server.kill()
        assert not server.is_running
        server.start()
        assert server.is_running
        assert server.url == url
        declare(url, passive=True)


def test_nobody_else_is_given_the_port_of_a_broker_that_is_down() -> None:
    server = AmqpdServer(http=True)
    for port in (server.port, server.http_port):
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
    server.close()
    for port in (server.port, server.http_port):
        with socket.socket() as other:
            other.bind(("127.0.0.1", port))


def test_a_restarted_broker_is_another_process_with_the_same_data() -> None:
    with AmqpdServer() as server:
        pid = server.pid
        declare(server.url, passive=False)
        server.restart()
        assert server.pid != pid
        declare(server.url, passive=True)


def test_a_data_directory_of_ones_own_stays(tmp_path: Path) -> None:
    with amqpd_server(data_dir=tmp_path / "data") as url:
        declare(url, passive=False)
    with amqpd_server(data_dir=tmp_path / "data") as url:
        declare(url, passive=True)


def test_the_temporary_directory_goes() -> None:
    with AmqpdServer() as server:
        directory = server.data_dir.parent
        assert directory.exists()
    assert not directory.exists()


def test_definitions_are_loaded() -> None:
    definitions = {
        "users": [{"name": "ann", "password": "s3cret", "tags": ""}],
        "vhosts": [{"name": "shop"}],
        "permissions": [
            {
                "user": "ann",
                "vhost": "shop",
                "configure": ".*",
                "write": ".*",
                "read": ".*",
            }
        ],
    }
    with AmqpdServer(definitions=definitions) as server:
        endpoint = Endpoint("127.0.0.1", server.port, "ann", "s3cret", "shop")
        with RawClient(endpoint) as client:
            client.open().open_channel()


def test_the_developers_own_variables_do_not_reach_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AMQPD_DEFAULT_USER", "somebody-else")
    monkeypatch.setenv("RABBITMQ_DEFAULT_PASS", "somebody-else")
    with amqpd_server() as url:
        declare(url, passive=False)


def test_what_is_passed_does_reach_it() -> None:
    env = {"AMQPD_HEARTBEAT_S": "7"}
    with AmqpdServer(config="channel_max = 9\n", env=env) as server:
        with RawClient(Endpoint.from_url(server.url)) as client:
            tune = client.login()
            assert (tune.channel_max, tune.heartbeat) == (9, 7)


def test_a_failure_shows_the_log_and_the_exit_code() -> None:
    starting = AmqpdServer(args=("--log-level", "loud"))
    with pytest.raises(ServerFailed, match=r"log\.level must be one of") as caught:
        starting.start()
    assert caught.value.exit_code == 78
    assert not starting.is_running
    starting.close()


def test_a_failure_to_enter_leaves_nothing_behind() -> None:
    starting = AmqpdServer(config="prot = 1\n")
    with pytest.raises(ServerFailed, match="there is no setting 'prot'"):
        starting.__enter__()
    assert not starting.data_dir.parent.exists()


def test_a_broker_that_says_nothing_in_time_is_a_failure() -> None:
    silent = (sys.executable, "-c", "import time; time.sleep(60)")
    starting = AmqpdServer(command=silent, timeout_s=0.2)
    with pytest.raises(ServerFailed, match="printed ''") as caught:
        starting.start()
    assert caught.value.exit_code is None
    starting.close()
