"""The command line: verbs found, options understood, mistakes told; no broker."""

from __future__ import annotations

import pytest

from amqpd import __version__
from amqpd.cli.ctl.command_line import find_verb, main, verb_parser
from amqpd.cli.ctl.verbs import BY_NAME, GROUPS


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMQPCTL_URL", "http://127.0.0.1:1")


def errors_of(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(words)
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "verb", "rest"),
    [
        (["list_queues", "-p", "v"], "list_queues", ["-p", "v"]),
        (["-p", "v", "list_queues"], "list_queues", ["-p", "v"]),
        (["-n", "rabbit@x", "-q", "ping"], "ping", ["-n", "rabbit@x", "-q"]),
        (["--url=http://x", "ping"], "ping", ["--url=http://x"]),
        (["-q"], None, ["-q"]),
        ([], None, []),
    ],
)
def test_the_verb_is_the_first_word_that_is_no_option(
    words: list[str], verb: str | None, rest: list[str]
) -> None:
    assert find_verb(words) == (verb, rest)


def test_no_name_of_a_verb_is_taken_twice() -> None:
    names = [verb.name for _, verbs in GROUPS for verb in verbs]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", BY_NAME)
def test_every_verb_has_help_and_a_banner_that_can_be_filled_in(name: str) -> None:
    verb = BY_NAME[name]
    parser = verb_parser("amqpctl", verb)
    assert verb.help in " ".join(parser.format_help().split())
    words = [
        word.rstrip("?*+") for word in verb.arguments.split() if word[-1] not in "?*"
    ]
    said = parser.parse_intermixed_args(words)
    known = {**vars(said), "url": "", "vhost": "/"}
    assert "{" not in verb.banner.format_map(known)


def test_the_version_needs_no_broker(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"{__version__}\n"


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    listed = capsys.readouterr().out
    assert [name for name in BY_NAME if f"  {name} " not in listed] == []


def test_help_about_a_verb_says_what_it_takes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["help", "set_policy"]) == 0
    text = capsys.readouterr().out
    assert "policy pattern definition" in " ".join(text.split())
    assert "--apply-to" in text


def test_nothing_said_is_a_usage_error_with_the_verbs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, errors = errors_of(capsys)
    assert code == 64
    assert "list_queues" in errors


def test_a_misspelt_verb_is_told_what_is_near(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, errors = errors_of(capsys, "list_queus")
    assert code == 64
    assert "did you mean list_queues" in errors


@pytest.mark.parametrize(
    "words",
    [
        ["add_user"],
        ["delete_user", "a", "b"],
        ["list_queues", "--nope"],
        ["list_queues", "no_such_column"],
        ["set_policy", "p", "a", "{}", "--apply-to", "everything"],
        ["set_policy", "p", "a", "{}", "--priority", "high"],
        ["ping", "--timeout", "0"],
        ["ping", "--formatter", "erlang"],
        ["ping", "--url", "ftp://x"],
        ["close_all_connections", "why"],
        ["check_port_listener", "amqp"],
        ["get", "q", "--count", "many"],
        ["set_vm_memory_high_watermark", "relative", "0.5"],
    ],
)
def test_a_wrong_command_line_ends_with_64(words: list[str]) -> None:
    assert main(words) == 64


@pytest.mark.parametrize(
    "words",
    [
        ["set_policy", "p", "a", "{max-length: 1}"],
        ["set_policy", "p", "a", "[]"],
        ["set_parameter", "c", "n", "{"],
        ["set_vm_memory_high_watermark", "1.5"],
        ["set_vm_memory_high_watermark", "absolute", "10XB"],
        ["set_disk_free_limit", "-1"],
        ["import_definitions", "/nowhere/definitions.json"],
    ],
)
def test_what_cannot_be_used_ends_with_65(words: list[str]) -> None:
    assert main(words) == 65


def test_a_broker_that_is_not_there_ends_with_69(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, errors = errors_of(capsys, "list_queues")
    assert code == 69
    assert errors.startswith("amqpctl: cannot reach http://127.0.0.1:1: ")
    assert "amqpctl: is the broker running" in errors


def test_the_url_on_the_line_counts_more_than_the_environments(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, errors = errors_of(capsys, "--url", "http://127.0.0.1:2", "ping")
    assert "http://127.0.0.1:2" in errors


def test_a_password_can_be_hashed_as_rabbitmq_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from amqpd.auth.passwords import verify

    assert main(["hash_password", "secret"]) == 0
    stored = capsys.readouterr().out.strip()
    assert verify("secret", stored, "rabbit_password_hashing_sha256")
