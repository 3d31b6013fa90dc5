"""What scripts call, and read: RabbitMQ's tools by name, printed as RabbitMQ does.

The expected texts were taken from rabbitmqctl 3.10.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqpd.testing import AmqpdServer
from tests.support.ctl import Ctl, Printed


@pytest.fixture(scope="module")
def server() -> Iterator[AmqpdServer]:
    with AmqpdServer(http=True) as running:
        yield running


@pytest.fixture
def ctl(server: AmqpdServer) -> Ctl:
    return Ctl(server.http_url)


@pytest.fixture
def vhost(ctl: Ctl) -> Iterator[str]:
    ctl.done("add_vhost", "v")
    ctl.done("set_permissions", "-p", "v", "guest", ".*", ".*", ".*")
    ctl.done("set_policy", "-p", "v", "p", "^q", '{"max-length":10}')
    ctl.done("import_definitions", "-p", "v", stdin=json.dumps(QUEUES).encode())
    yield "v"
    ctl.done("delete_vhost", "v")


QUEUES = {
    "queues": [
        {
            "name": "q",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-max-length": 5, "x-dead-letter-exchange": "dl"},
        }
    ]
}


def ok(printed: Printed) -> str:
    assert printed.code == 0, printed
    return printed.out


def test_a_list_has_a_banner_names_and_tabs(ctl: Ctl, vhost: str) -> None:
    printed = ctl.tool("rabbitmqctl", "list_queues", "-p", "v", "name", "durable")
    assert printed.lines == [
        "Timeout: 60.0 seconds ...",
        "Listing queues for vhost v ...",
        "name\tdurable",
        "q\ttrue",
    ]


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (["-q"], ["name\tmessages", "q\t0"]),
        (["-s"], ["q\t0"]),
        (["--silent"], ["q\t0"]),
        (["-q", "--no-table-headers"], ["q\t0"]),
        (["-q", "--formatter", "csv"], ['"name","messages"', '"q","0"']),
        (["--formatter", "json"], ["[", '{"name":"q","messages":0}', "]"]),
        (["--formatter=json"], ["[", '{"name":"q","messages":0}', "]"]),
    ],
)
def test_scripts_get_the_form_that_they_ask_for(
    ctl: Ctl, vhost: str, options: list[str], lines: list[str]
) -> None:
    before = ctl.tool(
        "rabbitmqctl", "-n", "rabbit@x", *options, "list_queues", "-p", "v"
    )
    after = ctl.tool(
        "rabbitmqctl", "list_queues", "-p", "v", *options, "-n", "rabbit@x"
    )
    assert before.lines == after.lines == lines


def test_arguments_look_as_erlang_writes_them(ctl: Ctl, vhost: str) -> None:
    printed = ctl.tool("rabbitmqctl", "-s", "list_queues", "-p", "v", "arguments")
    assert printed.out == '[{"x-dead-letter-exchange","dl"},{"x-max-length",5}]\n'


def test_a_policy_is_a_text_even_in_json(ctl: Ctl, vhost: str) -> None:
    words = ("rabbitmqctl", "list_policies", "-p", "v")
    row = 'v\tp\t^q\tall\t{"max-length":10}\t0'
    assert ctl.tool(*words).lines == [
        'Listing policies for vhost "v" ...',
        "vhost\tname\tpattern\tapply-to\tdefinition\tpriority",
        row,
    ]
    [policy] = json.loads(ctl.tool(*words, "--formatter", "json").out)
    assert policy["definition"] == '{"max-length":10}'


def test_the_value_of_a_parameter_is_a_text_too(ctl: Ctl) -> None:
    ctl.done("set_global_parameter", "mine", '"text"')
    printed = ctl.tool("rabbitmqctl", "-s", "list_global_parameters")
    ctl.done("clear_global_parameter", "mine")
    assert 'mine\t"text"' in printed.lines


def test_a_life_of_a_user_is_told_as_rabbitmqctl_tells_it(ctl: Ctl, vhost: str) -> None:
    def told(*words: str) -> list[str]:
        return ok(ctl.tool("rabbitmqctl", *words)).splitlines()

    assert told("add_user", "joe", "pw") == [
        'Adding user "joe" ...',
        (
            "Done. Don't forget to grant the user permissions to some virtual "
            "hosts! See 'rabbitmqctl help set_permissions' to learn more."
        ),
    ]
    assert told("set_user_tags", "joe", "management", "foo") == [
        'Setting tags for user "joe" to [management, foo] ...'
    ]
    assert told("-q", "list_users") == [
        "user\ttags",
        "guest\t[administrator]",
        "joe\t[management, foo]",
    ]
    assert told("authenticate_user", "joe", "pw") == [
        'Authenticating user "joe" ...',
        "Success",
    ]
    assert told("set_permissions", "-p", "v", "joe", "^a", "", ".*") == [
        'Setting permissions for user "joe" in vhost "v" ...'
    ]
    assert told("list_user_permissions", "joe") == [
        'Listing permissions for user "joe" ...',
        "vhost\tconfigure\twrite\tread",
        "v\t^a\t\t.*",
    ]
    assert told("delete_user", "joe") == ['Deleting user "joe" ...']


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["delete_user", "nobody"], 67, 'User "nobody" does not exist'),
        (["add_user", "guest", "x"], 70, 'User "guest" already exists'),
        (["authenticate_user", "guest", "x"], 65, "failed to authenticate user"),
        (["delete_vhost", "nope"], 65, "Virtual host 'nope' does not exist"),
        (["purge_queue", "nope"], 69, "no queue 'nope'"),
        (["delete_queue", "nope"], 64, "Queue not found"),
        (["clear_policy", "nope"], 69, "no policy 'nope'"),
        (["clear_parameter", "a", "b"], 69, "Parameter does not exist"),
        (["list_queues", "bogus"], 64, "Info key(s) bogus are not supported"),
        (["nosuchverb"], 64, "unknown verb"),
    ],
)
def test_failures_have_rabbitmqctls_codes_and_go_to_standard_error(
    ctl: Ctl, words: list[str], code: int, error: str
) -> None:
    printed = ctl.tool("rabbitmqctl", *words)
    assert printed.code == code
    assert printed.err.startswith("Error:\n")
    assert error in printed.err


def test_the_health_check_of_compose_files_passes(ctl: Ctl) -> None:
    assert ok(ctl.tool("rabbitmq-diagnostics", "-q", "ping")) == "Ping succeeded\n"
    ok(ctl.tool("rabbitmq-diagnostics", "-q", "check_running"))
    ok(ctl.tool("rabbitmq-diagnostics", "-q", "check_port_connectivity"))
    ok(ctl.tool("rabbitmqctl", "wait", "/var/lib/rabbitmq/pid", "--timeout", "5"))
    ok(ctl.tool("rabbitmqctl", "await_startup"))


def test_json_says_what_a_command_says(ctl: Ctl) -> None:
    out = ok(ctl.tool("rabbitmqctl", "ping", "--formatter", "json"))
    assert json.loads(out) == {"message": "Ping succeeded"}


def test_a_shim_finds_the_broker_by_the_environment(
    server: AmqpdServer, ctl: Ctl, tmp_path: Path
) -> None:
    ctl.done("install-shims", str(tmp_path))
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ran = subprocess.run(
        ["rabbitmqctl", "-q", "list_vhosts"],
        env={**environment, "AMQPCTL_URL": server.http_url},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "name\n/\n"
