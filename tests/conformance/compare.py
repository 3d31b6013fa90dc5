"""`make conformance PEER=amqp://...`: where another broker and ours differ, and why.

The tests of `tests/server` and `interop` that need no more than a URL run against our
broker and against the peer. A test that passes on both and looked up no row of
`differences.toml` shows no difference. One that looked up a row holds each broker to
what the row says of it; the row's reason is printed. One that fails on the peer differs
too, and must be named by the `tests` of a row: what none names is NOT EXPLAINED, and
the exit code is 1. A test that fails on ours is no difference but wrong, and so not
explained either.

Tests of tools that speak to the management API run if its address is named, too.

The peer needs the users of tests/server/definitions.json: tests/server/conftest.py.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

TABLE: Final = Path(__file__).with_name("differences.toml")
NOT_EXPLAINED: Final = "NOT EXPLAINED"
#: Not run on this broker: the test is new, or was not collected.
NOT_RUN: Final = "not run"

Record = Mapping[str, Mapping[str, Any]]
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Difference:
    """One test, and what became of it on either broker."""

    test: str
    ours: str
    peer: str
    reason: str


def differences(ours: Record, peer: Record, rows: Rows) -> list[Difference]:
    """Return the differences between two records, in the order of the tests."""
    reasons = {str(row["id"]): str(row["reason"]) for row in rows}
    of_test = {
        test: str(row["reason"]) for row in rows for test in row.get("tests", ())
    }
    found: list[Difference] = []
    for test in {**ours, **peer}:
        here, there = outcome(ours, test), outcome(peer, test)
        if here == there == "passed":
            for noted in looked_up(peer[test]["rows"]):
                reason = reasons[noted["row"]]
                found.append(
                    Difference(
                        test,
                        noted.get("ours", "as the test says"),
                        noted.get("peer", "as the reason says"),
                        reason,
                    )
                )
        else:
            # What fails on ours is no difference but wrong.
            named = of_test.get(test) if here == "passed" else None
            found.append(Difference(test, here, there, named or NOT_EXPLAINED))
    return found


def looked_up(rows: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """Return what a test noted, each row once."""
    return list({noted["row"]: noted for noted in rows}.values())


def outcome(record: Record, test: str) -> str:
    """Return what became of a test, and why it failed."""
    if test not in record:
        return NOT_RUN
    entry = record[test]
    why = entry.get("why")
    return str(entry["outcome"]) + (f": {why}" if why else "")


def is_explained(found: Sequence[Difference]) -> bool:
    """Say whether every difference has its reason."""
    return all(one.reason != NOT_EXPLAINED for one in found)


def table(found: Sequence[Difference]) -> str:
    """Return the differences as text; of one reason the tests are told together."""
    by_reason: dict[str, list[Difference]] = {}
    for one in found:
        by_reason.setdefault(one.reason, []).append(one)
    lines: list[str] = []
    for reason in sorted(by_reason, key=lambda reason: reason == NOT_EXPLAINED):
        lines.append(" ".join(reason.split()))
        for one in by_reason[reason]:
            lines.append(f"    {one.test}")
            lines.append(f"        ours: {one.ours}")
            lines.append(f"        peer: {one.peer}")
    return "\n".join(lines)


def run(
    peer: tuple[str, str | None] | None,
    path: Path,
    arguments: Sequence[str],
    has_management: bool,
) -> Record:
    """Run the tests against a broker, ours if it is no peer; return the record."""
    environment = {
        name: text
        for name, text in os.environ.items()
        if name not in ("AMQP_URL", "MANAGEMENT_URL")
    }
    if peer is not None:
        environment["AMQP_URL"], management = peer
        if management is not None:
            environment["MANAGEMENT_URL"] = management
    command = [sys.executable, "-m", "pytest", "-p", "tests.conformance.recording"]
    command += ["--quiet", "--tb=no", "--no-header", "-r", "", f"--record={path}"]
    if not has_management:
        command.append("--without-management")
    ended = subprocess.run(
        [*command, *(arguments or ("tests/server", "interop"))],
        env=environment,
        check=False,
    )
    if ended.returncode not in (0, 1):
        raise SystemExit(f"the tests did not run: pytest ended with {ended.returncode}")
    record: Record = json.loads(path.read_text())
    return record


def without_user(url: str | None) -> str | None:
    """Return an address as tools want it, who are told the user apart."""
    if url is None:
        return None
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def main() -> int:
    """Run both, print where they differ, and say whether all of it is explained."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("peer", help="the other broker: amqp://user:password@host/")
    parser.add_argument(
        "--management", help="its management API: http://host:15672", default=None
    )
    # What else is there is for pytest: folders, files, -k and a word.
    options, rest = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as directory:
        print("ours:", flush=True)
        has_management = options.management is not None
        ours = run(None, Path(directory, "ours.json"), rest, has_management)
        print(f"{options.peer}:", flush=True)
        there = (options.peer, without_user(options.management))
        peer = run(there, Path(directory, "peer.json"), rest, has_management)
    found = differences(ours, peer, tomllib.loads(TABLE.read_text())["difference"])
    print(table(found))
    tests = {one.test for one in found}
    unexplained = {one.test for one in found if one.reason == NOT_EXPLAINED}
    print(
        f"{len(ours.keys() - tests)} tests find no difference, {len(tests)} find one, "
        f"{len(unexplained)} of those are not explained"
    )
    return 0 if is_explained(found) else 1


if __name__ == "__main__":
    sys.exit(main())
