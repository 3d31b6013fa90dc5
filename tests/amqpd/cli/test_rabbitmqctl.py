"""RabbitMQ's tools by name, as far as no broker is needed for it."""

from __future__ import annotations

import os

import pytest

from amqpd.cli.rabbitmqctl import main


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMQPCTL_URL", "http://127.0.0.1:1")


@pytest.mark.parametrize(
    "words",
    [
        ["rabbitmqctl", "-n", "rabbit@host", "rotate_logs"],
        ["rabbitmqctl", "force_gc"],
        ["rabbitmq-queues", "rebalance", "all"],
        ["rabbitmq-upgrade", "await_online_quorum_plus_one", "-t", "60"],
        ["rabbitmq-plugins", "enable", "--offline", "rabbitmq_management"],
        ["rabbitmq-plugins", "enable", "rabbitmq_stomp"],
        ["rabbitmq-plugins", "list", "-e", "-m"],
        ["rabbitmq-plugins", "is_enabled", "rabbitmq_management"],
    ],
)
def test_what_has_nothing_to_do_succeeds_without_a_broker(words: list[str]) -> None:
    assert main(words) == 0


@pytest.mark.parametrize("verb", ["join_cluster", "eval"])
def test_what_would_do_harm_by_doing_nothing_fails(verb: str) -> None:
    assert main(["rabbitmqctl", verb]) == 64


@pytest.mark.parametrize(
    "words",
    [
        ["rabbitmqctl", "wait", "/var/run/pid"],
        ["rabbitmqctl", "wait"],
        ["rabbitmqctl", "stop", "/var/run/pid"],
        ["rabbitmq-diagnostics", "-q", "ping"],
    ],
)
def test_what_needs_a_broker_fails_without_one(words: list[str]) -> None:
    code = main([*words, "--timeout", "0.05"])
    assert code in (69, 75)


def test_a_name_that_is_also_a_verb_stays_a_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["rabbitmqctl", "delete_user", "wait"])
    assert capsys.readouterr().out == 'Deleting user "wait" ...\n'
    assert main(["rabbitmqctl", "delete_user", "rotate_logs"]) == 69


def test_a_plugin_that_is_not_built_in_is_not_said_to_be(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["rabbitmq-plugins", "is_enabled", "rabbitmq_stomp"]) == 69
    main(["rabbitmq-plugins", "enable", "rabbitmq_stomp"])
    assert "amqpd has no rabbitmq_stomp" in capsys.readouterr().err


def test_a_minimal_list_of_plugins_is_names_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["rabbitmq-plugins", "list", "-m"])
    assert "rabbitmq_management" in capsys.readouterr().out.splitlines()


def test_errors_are_written_as_rabbitmqctl_writes_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["rabbitmqctl", "list_queues"])
    printed = capsys.readouterr()
    assert printed.out.endswith("Listing queues for vhost / ...\n")
    assert printed.err.startswith("Error:\ncannot reach")


@pytest.mark.parametrize(
    ("node", "place"),
    [
        ("rabbit@broker.invalid", "http://broker.invalid:15672"),
        ("rabbit@localhost", "http://localhost:15672"),
        (f"rabbit@{os.uname().nodename}", "http://localhost:15672"),
        ("rabbit", "http://localhost:15672"),
    ],
)
def test_another_machines_node_is_asked_there(
    node: str,
    place: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AMQPCTL_URL")
    # Whoever listens here, if anybody does, is not to be asked anything.
    monkeypatch.setattr("http.client.HTTPConnection.connect", refuse)
    assert main(["rabbitmqctl", "-n", node, "ping"]) == 69
    assert f"cannot reach {place}" in capsys.readouterr().err


def test_the_environment_says_where_the_broker_is_whatever_it_is_called(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["rabbitmqctl", "-n", "rabbit@broker.invalid", "ping"])
    assert "cannot reach http://127.0.0.1:1:" in capsys.readouterr().err


def refuse(connection: object) -> None:
    raise ConnectionRefusedError("nobody")
