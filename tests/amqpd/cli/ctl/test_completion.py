"""Shell completion: what the word that is being typed may become."""

from __future__ import annotations

import subprocess

import pytest

from amqpd.cli.ctl.command_line import main


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMQPCTL_URL", "http://127.0.0.1:1")


def completed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["complete", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    return [line.partition("\t")[0] for line in lines]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["list_q"], ["list_queues"]),
        (["-q", "list_q"], ["list_queues"]),
        (["-p", "v", "list_q"], ["list_queues"]),
        (["list_queues", "messages_rea"], ["messages_ready", "messages_ready_ram"]),
        (
            ["list_queues", "name", "messages_rea"],
            ["messages_ready", "messages_ready_ram"],
        ),
        (["list_queues", "--off"], ["--offline"]),
        (["list_queues", "--vh"], ["--vhost"]),
        (["list_queues", "--formatter", "p"], ["pretty_table"]),
        (["set_policy", "--apply-to", "qu"], ["queues", "quorum_queues"]),
        (["set_policy", "p", "q", "{}", ""], []),
        (["set_user_tags", "jane", "moni"], ["monitoring"]),
        (["set_user_tags", "jane", "management", "moni"], ["monitoring"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["-n", "ra"], []),
        (["no_such_verb", ""], []),
    ],
)
def test_a_word_becomes_what_may_stand_there(
    words: list[str], found: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert completed(capsys, *words) == found


def test_a_verb_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    main(["complete", "purge"])
    line = capsys.readouterr().out
    assert line == "purge_queue\tdrop the messages that are ready in a queue\n"


def test_without_a_broker_there_are_no_names_and_no_complaint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["complete", "purge_queue", ""])
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "")


def test_options_that_only_scripts_pass_are_not_offered(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "--node" not in completed(capsys, "list_queues", "--")


def test_bash_completes_with_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "bash"])
    script = capsys.readouterr().out
    # What bash does at a tab, with a command that knows two verbs, one odd.
    typed = """
        amqpctl() { [ "$*" = "complete -q list" ] && printf 'list_a\\tx\\nlist b\\n'; }
        COMP_WORDS=(amqpctl -q list) COMP_CWORD=2
        _amqpctl
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    ran = subprocess.run(
        ["bash", "-c", script + typed], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines() == ["list_a", "list\\ b"]
