"""Where an installation of RabbitMQ is looked for, and what ours is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.rabbitmq import environment, installed_script


def install(root: Path, place: str) -> Path:
    folder = root / place
    folder.mkdir(parents=True)
    script = folder / "rabbitmq-server"
    script.touch()
    return script


def test_the_newest_of_several_installations_is_taken(tmp_path: Path) -> None:
    install(tmp_path, "usr/lib/rabbitmq/lib/rabbitmq_server-3.9.13/sbin")
    newest = install(tmp_path, "usr/lib/rabbitmq/lib/rabbitmq_server-3.10.8/sbin")
    install(tmp_path, "opt/rabbitmq_server-3.8.2/sbin")
    assert installed_script(tmp_path) == newest


def test_a_folder_without_the_script_is_no_installation(tmp_path: Path) -> None:
    (tmp_path / "opt/rabbitmq/sbin").mkdir(parents=True)
    assert installed_script(tmp_path) is None


def test_an_installation_without_a_version_is_found(tmp_path: Path) -> None:
    script = install(tmp_path, "opt/rabbitmq/sbin")
    assert installed_script(tmp_path) == script


def test_nothing_of_an_installed_service_is_read_or_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RABBITMQ_BASE", "/somewhere")
    monkeypatch.setenv("RABBITMQ_NODENAME", "rabbit@elsewhere")
    told = environment(tmp_path, 23_456)
    assert "RABBITMQ_BASE" not in told
    assert told["RABBITMQ_NODENAME"] != "rabbit@elsewhere"
    assert told["HOME"] == str(tmp_path)
    for name, value in told.items():
        if name.startswith("RABBITMQ_") and "/" in value:
            assert Path(value).parent == tmp_path, name
    written = (tmp_path / "rabbitmq.conf").read_text(encoding="utf-8")
    assert written == "listeners.tcp.1 = 127.0.0.1:23456\n"
