"""The command line, as far as no broker is needed for it."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from amqpd import __version__
from amqpd.cli.server import EXIT_CONFIG, EXIT_UNAVAILABLE, main
from tests.support.certificates import Authority


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AMQPD_CONFIG", "AMQPD_PORT", "AMQPD_LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)


def test_the_version_says_which_build_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    assert re.fullmatch(
        re.escape(f"amqpd {__version__}") + r" \((compiled|pure)\)\n", printed
    )


def test_show_prints_value_and_origin(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMQPD_LOG_LEVEL", "debug")
    assert main(["config", "show", "--port", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line for line in lines}
    assert re.fullmatch(r"port += 1 +# --port", rows["port"])
    assert rows["log.level"].endswith("# AMQPD_LOG_LEVEL")
    assert rows["heartbeat_s"].endswith("# default")


def test_check_says_that_a_configuration_can_be_used(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "rabbitmq.conf"
    path.write_text("heartbeat = 5\nqueue_master_locator = min\n")
    assert main(["config", "check", "--config", str(path)]) == 0
    printed = capsys.readouterr()
    assert printed.out == "The configuration can be used.\n"
    assert "queue_master_locator has no effect in amqpd" in printed.err


def test_a_certificate_is_looked_at_by_check(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    old = authority.issue("localhost", valid_until=datetime(2021, 1, 1, tzinfo=UTC))
    check = ["config", "check", "--tls-port", "5671", "--tls-cert", str(old.cert)]
    assert main([*check, "--tls-key", str(old.key)]) == 0
    printed = capsys.readouterr()
    assert printed.out == "The configuration can be used.\n"
    assert "has expired on Jan  1 00:00:00 2021 GMT" in printed.err
    assert main([*check, "--tls-key", str(tmp_path / "nowhere")]) == EXIT_CONFIG
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("amqpd: --tls-key: tls.key ")


@pytest.mark.parametrize("command", [["serve"], ["config", "check"]])
def test_a_wrong_value_ends_with_its_name_and_the_code_for_it(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--port", "x"]) == EXIT_CONFIG
    error = capsys.readouterr().err
    assert error == "amqpd: --port: port must be a whole number, not 'x'\n"


def test_ping_where_nobody_listens_fails(capsys: pytest.CaptureFixture[str]) -> None:
    # Port 0 is nobody's.
    assert main(["ping", "--port", "0"]) == EXIT_UNAVAILABLE
    assert capsys.readouterr().err.startswith("amqpd: 127.0.0.1:0: ")
