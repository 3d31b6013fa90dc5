"""Measure the broker: named loads, each against an empty broker of its own.

    python -m tests.bench.run                        everything once
    python -m tests.bench.run transient durable --repeats 3
    python -m tests.bench.run --peer amqp://guest:guest@127.0.0.1:5673/ --peer-pid 4711
    python -m tests.bench.run backlog restart --count 10000000
    python -m tests.bench.run latency --uri amqp://127.0.0.1:5672/ --pid 4711

The broker runs on core 0 and the generator on core 1. Printed are a Markdown table
and one line of JSON (to a file with --json). Medians are taken over --repeats; with a
peer the two take turns. `strangers_cores` is what of the machine was used by neither
broker nor generator: a figure with much of it means little.

With --check the exit status is 1 if a figure misses what the scenario promises.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

from tests.bench import machine
from tests.bench.broker import Target, build_of, installed_command, started
from tests.bench.generator import Generator, compiled
from tests.bench.report import STRANGERS, Report
from tests.bench.scenarios import SCENARIOS, Bench

BROKER_CORE: Final = 0
GENERATOR_CORE: Final = 1

OpenTarget = Callable[[], AbstractContextManager[Target]]


def main() -> int:
    """Run what the command line asks for; return the exit status."""
    said = _parser().parse_args()
    place = machine.disk_directory(said.directory)
    generator = Generator(said.amqpload or compiled(Path("build")), GENERATOR_CORE)
    bench = Bench(generator, BROKER_CORE, said.seconds, place, said.count)
    facts = machine.facts()
    facts["disk"] = f"{machine.file_system_type(place)} at {place}"
    facts["backlog"] = f"{said.count:,} messages"
    facts["build"] = said.uri or build_of(said.amqpd)
    report = Report(facts)
    targets = _targets(said, place)
    if len(os.sched_getaffinity(0)) < 2:
        print("one core only: broker and generator share it", file=sys.stderr)
    with machine.pinned(GENERATOR_CORE):
        for _ in range(said.repeats):
            for name in said.scenarios or SCENARIOS:
                for open_target in targets:
                    _measure(name, bench, open_target, report)
    _print(report, said.json)
    missed = report.missed() if said.check else []
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if missed else 0


def _measure(name: str, bench: Bench, open_target: OpenTarget, report: Report) -> None:
    with open_target() as target:
        print(f"{name} on {target.name} ...", file=sys.stderr, flush=True)
        strangers = machine.Strangers(target.pids)
        figures = SCENARIOS[name].measure(bench, target)
        if target.pids:
            figures[STRANGERS] = strangers.cores_used()
        report.add(name, target.name, figures)


def _targets(said: argparse.Namespace, place: Path) -> list[OpenTarget]:
    """Return how to come by each broker: ours first, then the peer."""
    targets: list[OpenTarget] = []
    if said.uri:
        running = Target("amqpd", said.uri, tuple(said.pid), "")
        targets.append(lambda: nullcontext(running))
    else:
        targets.append(lambda: started(said.amqpd, BROKER_CORE, place))
    if said.peer:
        peer = Target(said.peer_name, said.peer, tuple(said.peer_pid), "")
        targets.append(lambda: nullcontext(peer))
    return targets


def _print(report: Report, path: Path | None) -> None:
    print(report.markdown())
    if path is None:
        print()
        print(report.json())
    else:
        path.write_text(report.json() + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.run", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", choices=SCENARIOS)
    add = parser.add_argument
    add("--seconds", type=float, default=6.0, help="length of a load")
    add("--count", type=int, default=1_000_000, help="messages of a backlog")
    add("--repeats", type=int, default=1, help="runs that the median is taken of")
    add("--amqpd", default=installed_command(), help="the command to start it by")
    add("--uri", help="measure a broker that runs already")
    add("--pid", type=int, action="append", default=[], help="its process")
    add("--peer", help="the URI of a broker to compare with")
    add("--peer-pid", type=int, action="append", default=[], help="its process")
    add("--peer-name", default="peer", help="its name in the table")
    add("--directory", type=Path, help="where data directories go")
    add("--amqpload", type=Path, help="the generator, compiled")
    add("--json", type=Path, help="write the JSON to this file")
    add("--check", action="store_true", help="exit 1 if a figure misses its limit")
    return parser


if __name__ == "__main__":
    sys.exit(main())
