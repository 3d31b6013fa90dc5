"""The scripts that are called like RabbitMQ's tools."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from amqpd.cli.ctl.command_line import main
from amqpd.cli.ctl.shims import TOOLS


def test_a_shim_runs_from_anywhere_and_passes_its_words_on(tmp_path: Path) -> None:
    directory = tmp_path / "a directory"
    assert main(["install-shims", str(directory)]) == 0
    # Whoever calls it may have anything lying around.
    (tmp_path / "amqpd.py").write_text("raise SystemExit('the wrong one')")
    ran = subprocess.run(
        [
            directory / "rabbitmqctl",
            "--url",
            "http://127.0.0.1:1",
            "delete_user",
            "a b",
        ],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout == 'Deleting user "a b" ...\n'
    assert ran.stderr.startswith("Error:\ncannot reach http://127.0.0.1:1")
    assert ran.returncode == 69


def test_all_tools_are_written_and_can_be_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install-shims", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(TOOLS)
    assert all(os.access(path, os.X_OK) for path in tmp_path.iterdir())
    assert f'export PATH="{tmp_path}:$PATH"' in capsys.readouterr().err


def test_they_may_be_written_again(tmp_path: Path) -> None:
    main(["install-shims", str(tmp_path)])
    assert main(["install-shims", str(tmp_path)]) == 0


def test_a_tool_of_somebody_else_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = tmp_path / "rabbitmqctl"
    theirs.write_text("#!/bin/sh\n")
    assert main(["install-shims", str(tmp_path)]) == 65
    assert "is there already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["rabbitmqctl"]
    assert theirs.read_text() == "#!/bin/sh\n"


def test_unless_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "rabbitmqctl").write_text("#!/bin/sh\n")
    assert main(["install-shims", "--force", str(tmp_path)]) == 0
    assert "amqpd" in (tmp_path / "rabbitmqctl").read_text()


def test_where_nothing_can_be_written_it_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["install-shims", str(tmp_path / "file")]) == 65
    assert str(tmp_path / "file") in capsys.readouterr().err
