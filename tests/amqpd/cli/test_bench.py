"""The flags of `amqpd bench`, as far as no broker is needed for them."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from amqpd.bench.errors import OptionsInvalid
from amqpd.cli.bench import EXIT_UNAVAILABLE, EXIT_USAGE, add_arguments, options_from
from amqpd.cli.server import main


def asked(*words: str) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return options_from(parser.parse_args(words)).as_json()


def test_flags_of_perftest_mean_the_same_as_ours() -> None:
    short = ("-x2", "-y3", "-s64", "-r5", "-C7", "-c8", "-a", "-A9", "-q10", "-ttopic")
    long = (
        "--producers=2",
        "--consumers=3",
        "--size=64",
        "--rate=5",
        "--pmessages=7",
        "--confirm=8",
        "--ack=auto",
        "--multi-ack-every=9",
        "--qos=10",
        "--type=topic",
    )
    assert asked(*short) == asked(*long)
    assert asked(*short)["count"] == 7


def test_queue_arguments_are_numbers_where_they_look_like_it() -> None:
    text = "x-max-length=10,x-overflow=reject-publish,x-single-active-consumer=true"
    assert asked("--queue-args", text)["queue_arguments"] == {
        "x-max-length": 10,
        "x-overflow": "reject-publish",
        "x-single-active-consumer": True,
    }


@pytest.mark.parametrize("text", ["x-max-length", "=3"])
def test_a_queue_argument_without_key_or_value_is_refused(text: str) -> None:
    with pytest.raises(OptionsInvalid, match="is not KEY=VALUE"):
        asked("--queue-args", text)


def test_options_that_mean_nothing_end_with_the_code_for_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["bench", "--size", "3"]) == EXIT_USAGE
    error = capsys.readouterr().err
    assert error.startswith("amqpd bench: --size is 16 to ")


def test_where_nobody_listens_it_says_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Port 1 is nobody's.
    assert main(["bench", "--url", "amqp://127.0.0.1:1"]) == EXIT_UNAVAILABLE
    error = capsys.readouterr().err
    assert error.startswith("amqpd bench: cannot connect to 127.0.0.1:1: ")
    assert "is the broker running (amqpd serve)?" in error


def test_a_host_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    # No name has an empty part, so nobody is asked for it.
    assert main(["bench", "--url", "amqp://no..where"]) == EXIT_UNAVAILABLE
    assert "there is no host 'no..where'" in capsys.readouterr().err


def test_the_help_of_the_command_lists_its_flags(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "--help"])
    printed = capsys.readouterr().out
    assert "--verify" in printed
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "bench" in capsys.readouterr().out
