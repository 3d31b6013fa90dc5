"""A package of the same name that comes first on the path is named, not imported."""

import subprocess
import sys
from pathlib import Path

import pytest

import amqpd
from amqpd.cli.server import EXIT_CONFIG
from amqpd.neighbours import NEIGHBOURS, NeighbourHidden, check_neighbours

HOME = Path(amqpd.__file__).resolve().parent.parent


def serve_in(directory: Path) -> subprocess.CompletedProcess[str]:
    """Run `python -m amqpd serve` where the directory is looked into first."""
    return subprocess.run(
        [sys.executable, "-m", "amqpd", "serve", "--data-dir", str(directory / "data")],
        cwd=directory,
        env={"PYTHONPATH": str(HOME)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_ours_lie_beside_amqpd() -> None:
    check_neighbours()


@pytest.mark.parametrize("name", NEIGHBOURS)
@pytest.mark.parametrize("file", ["{}.py", "{}/__init__.py"])
def test_an_intruder_is_named(tmp_path: Path, name: str, file: str) -> None:
    intruder = tmp_path / file.format(name)
    intruder.parent.mkdir(exist_ok=True)
    intruder.write_text("raise SystemExit('imported')\n")
    ended = serve_in(tmp_path)
    assert ended.returncode == EXIT_CONFIG
    assert ended.stderr.startswith(f"amqpd: {intruder} hides the package {name!r}")
    assert not (tmp_path / "data").exists()


def test_without_ours_the_missing_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for name in NEIGHBOURS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(NeighbourHidden, match="there is no package 'store' beside"):
        check_neighbours()
