"""The rows of `differences.toml` as the README shows them.

    python -m tests.conformance.differences_list

The README has them between the two marks, word for word; a test compares.
"""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tests.conformance.compare import TABLE

BEGIN: Final = "<!-- differences, by python -m tests.conformance.differences_list -->"
END: Final = "<!-- end of differences -->"
WIDTH: Final = 100


def as_list(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return a Markdown list: what is different, and why."""
    entries = []
    for row in rows:
        title = str(row["id"]).replace("-", " ").capitalize()
        reason = " ".join(str(row["reason"]).split())
        entries.append(
            textwrap.fill(
                f"**{title}.** {reason}",
                WIDTH,
                initial_indent="- ",
                subsequent_indent="  ",
                break_on_hyphens=False,
            )
        )
    return "\n".join([BEGIN, *entries, END])


def shown_in(text: str) -> str:
    """Return what a text has between the marks, the marks included; "" without them."""
    _, begin, rest = text.partition(BEGIN)
    between, end, _ = rest.partition(END)
    return begin + between + end


if __name__ == "__main__":
    print(as_list(tomllib.loads(TABLE.read_text())["difference"]))
