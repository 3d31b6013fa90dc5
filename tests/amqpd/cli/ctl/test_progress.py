"""The bar that is drawn while work goes on, where somebody looks at it."""

from __future__ import annotations

import io
import sys

import pytest

from amqpd.cli.ctl.progress import Bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_it_says_what_is_done_and_how_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with Bar("closing", 3) as bar:
        bar.advance(2)
    assert "closing" in terminal.getvalue()
    assert "2/3" in terminal.getvalue()


def test_elsewhere_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    with Bar("importing", 3, is_bytes=True) as bar:
        bar.advance(3)
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "")
