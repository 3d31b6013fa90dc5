"""amqpctl about the node: what it says of itself, checks, stop and start, limits."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from amqpd.testing import AmqpdServer
from tests.support.ctl import Ctl


@pytest.fixture(scope="module")
def server() -> Iterator[AmqpdServer]:
    with AmqpdServer(http=True) as running:
        yield running


@pytest.fixture
def ctl(server: AmqpdServer) -> Ctl:
    return Ctl(server.http_url)


@pytest.mark.parametrize(
    "words",
    [
        ["ping"],
        ["status"],
        ["cluster_status"],
        ["overview"],
        ["whoami"],
        ["listeners"],
        ["alarms"],
        ["server_version"],
        ["product_info"],
        ["memory_breakdown"],
        ["environment"],
        ["set_log_level", "info"],
        ["list_feature_flags"],
        ["enable_feature_flag", "all"],
        ["is_running"],
        ["is_booting"],
        ["await_startup"],
        ["check_running"],
        ["check_alarms"],
        ["check_local_alarms"],
        ["check_port_connectivity"],
        ["check_protocol_listener", "amqp"],
        ["check_virtual_hosts"],
        ["check_certificate_expiration", "--within", "2", "--unit", "weeks"],
        ["check_if_node_is_quorum_critical"],
        ["list_unresponsive_queues"],
        ["restart_vhost"],
    ],
)
def test_a_healthy_broker_passes(ctl: Ctl, words: list[str]) -> None:
    assert ctl(*words, "--json").code == 0
    assert ctl(*words).err == ""


def test_the_status_has_what_people_look_for(server: AmqpdServer, ctl: Ctl) -> None:
    lines = ctl("status").lines
    assert f"OS PID: {server.pid}" in lines
    assert f"Node data directory: {server.data_dir}" in lines
    assert "Virtual host count: 1" in lines
    amqp = f"Interface: 127.0.0.1, port: {server.port}, protocol: amqp"
    assert f"{amqp}, purpose: AMQP 0-9-1" in lines


def test_programs_find_the_status_where_rabbitmqctl_has_it(
    server: AmqpdServer, ctl: Ctl
) -> None:
    status = json.loads(ctl.tool("rabbitmqctl", "status", "--formatter", "json").out)
    assert status["pid"] == server.pid
    assert status["rabbitmq_version"].startswith("3.")
    assert status["alarms"] == []
    assert status["totals"] == {
        "connection_count": 0,
        "queue_count": 0,
        "virtual_host_count": 1,
    }
    assert ("127.0.0.1", server.port, "amqp") in [
        (each["interface"], each["port"], each["protocol"])
        for each in status["listeners"]
    ]


def test_a_port_that_nobody_listens_on_fails_its_check(
    server: AmqpdServer, ctl: Ctl
) -> None:
    ctl.done("check_port_listener", str(server.port))
    printed = ctl("check_port_listener", "1")
    assert printed.code == 69
    assert "No active listener" in printed.err


def test_alarms_come_with_the_limits_and_fail_the_checks(ctl: Ctl) -> None:
    ctl.done("set_vm_memory_high_watermark", "0")
    ctl.done("set_disk_free_limit", "1000000TB")
    try:
        shown = ctl.done("alarms")
        failed = [ctl(verb).code for verb in ("check_alarms", "check_local_alarms")]
    finally:
        ctl.done("set_vm_memory_high_watermark", "absolute", "100GB")
        ctl.done("set_disk_free_limit", "mem_relative", "0")
    assert shown.startswith("Memory alarm on node ")
    assert "Free disk space alarm" in shown
    assert failed == [69, 69]
    ctl.done("check_alarms")


def test_listeners_are_suspended_and_resumed(server: AmqpdServer, ctl: Ctl) -> None:
    ctl.done("suspend_listeners")
    assert ctl("check_port_listener", str(server.port)).code == 69
    ctl.done("resume_listeners")
    ctl.done("check_port_connectivity")


def test_an_app_is_stopped_waited_for_and_started(ctl: Ctl) -> None:
    ctl.done("stop_app")
    assert ctl.done("ping") == "Ping succeeded\n"
    stopped = ctl("list_queues")
    checked = ctl("check_running")
    awaited = ctl("await_startup", "--timeout", "0.1")
    ctl.done("start_app")
    assert ctl.rows("list_vhosts") == [("/",)]
    assert stopped.code == 69
    assert "the node is stopped; amqpctl start_app starts it" in stopped.err
    assert checked.code == 69
    assert awaited.code == 75


def test_a_process_ends_when_it_is_told_to() -> None:
    with AmqpdServer(http=True) as server:
        Ctl(server.http_url).done("shutdown")
        assert server.wait() == 0


def test_a_feature_flag_that_there_is_not_cannot_be_enabled(ctl: Ctl) -> None:
    assert ctl("enable_feature_flag", "nonsense").code == 65


def test_a_stopped_node_is_reset_and_starts_as_a_new_one() -> None:
    with AmqpdServer(http=True) as server:
        ctl = Ctl(server.http_url)
        ctl.done("add_vhost", "mine")
        ctl.done("add_user", "joe", "secret")
        running = ctl("reset")
        ctl.done("stop_app")
        ctl.done("reset")
        ctl.done("start_app")
        assert ctl.rows("list_vhosts") == [("/",)]
        assert [row[0] for row in ctl.rows("list_users")] == ["guest"]
        assert running.code == 69
        assert "it must be stopped first (stop_app)" in running.err


def test_a_report_has_everything_but_secrets(ctl: Ctl) -> None:
    ctl.done("add_user", "reported", "not-for-everybody")
    shown = ctl.done("report")
    found = json.loads(ctl.done("report", "--json"))
    ctl.done("delete_user", "reported")
    assert "name: reported, tags: []" in shown
    assert "user: guest, vhost: /, configure: .*, write: .*, read: .*" in shown
    assert "http.port = " in shown
    assert "password" not in json.dumps(found["users"])
    assert {"status", "cluster_status", "queues", "environment"} <= set(found)


def test_an_expression_of_erlang_is_refused_in_so_many_words(ctl: Ctl) -> None:
    refused = ctl("eval", "rabbit_mnesia:status().")
    assert refused.code == 64
    assert "amqpd runs no Erlang" in refused.err
