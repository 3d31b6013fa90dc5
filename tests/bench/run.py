"""Measure the broker: named loads, each against an empty broker of its own.

    python -m tests.bench.run                        the table of targets, and RabbitMQ
    python -m tests.bench.run transient durable --repeats 3
    python -m tests.bench.run d e --rabbitmq         rows of the table, by letter
    python -m tests.bench.run --peer lavinmq=amqp://127.0.0.1:5674/ --peer-pid 4711
    python -m tests.bench.run backlog restart --count 10000000
    python -m tests.bench.run mixed --seconds 1800
    python -m tests.bench.run latency --uri amqp://127.0.0.1:5672/ --pid 4711
    python -m tests.bench.run --smoke                a little of everything, in seconds

The broker runs on core 0 and the generator on core 1. Printed are Markdown tables and
one line of JSON (to a file with --json). Medians are taken over --repeats, three for
the whole table; the brokers take turns: ours, a peer, ours, the peer. RabbitMQ is
started if it is installed, unless loads are named; ours is started anew for each load,
a peer serves all of them.
`strangers_cores` is what of the machine was used by neither broker nor generator: a
figure with much of it means little. `waited_for_core_s` is how long the broker could
have run, and somebody else did: that is in latencies and in the loop's busy time.

With --check the exit status is 1 if a figure misses what the scenario promises; it is 1
as well if a load failed: messages were lost, or a broker ended.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.bench import machine
from tests.bench.broker import (
    BrokerFailed,
    Target,
    build_of,
    installed_command,
    started,
)
from tests.bench.figures import BUSY
from tests.bench.generator import Generator, LoadFailed, compiled
from tests.bench.peers import installed_peers, peers_by_url
from tests.bench.report import STRANGERS, Report
from tests.bench.scenario import Bench, Scenario
from tests.bench.scenarios import SCENARIOS
from tests.bench.targets import TARGETS

BROKER_CORE: Final = 0
GENERATOR_CORE: Final = 1
TABLE_REPEATS: Final = 3
SMOKE_SECONDS: Final = 0.2
SMOKE_COUNT: Final = 5_000

#: How to come by a broker for a scenario.
OpenTarget = Callable[[Scenario], AbstractContextManager[Target]]


def main() -> int:
    """Run what the command line asks for; return the exit status."""
    said = parser().parse_args()
    words = said.scenarios
    if said.repeats is None:
        said.repeats = 1 if words else TABLE_REPEATS
    if said.smoke:
        words = words or [*TARGETS, "mixed"]
        said.seconds, said.count, said.repeats = SMOKE_SECONDS, SMOKE_COUNT, 1
    place = machine.disk_directory(said.directory)
    generator = Generator(said.amqpload or compiled(Path("build")), GENERATOR_CORE)
    bench = Bench(generator, BROKER_CORE, said.seconds, place, said.count)
    report = Report(_facts(said, place))
    if len(machine.CORES) < 2:
        print("one core only: broker and generator share it", file=sys.stderr)
    with ExitStack() as running, machine.pinned(GENERATOR_CORE):
        targets = _targets(said, generator, place, running)
        for _ in range(said.repeats):
            for name in chosen(words, said.pure is not None):
                for open_target in targets:
                    measure(name, bench, open_target, report)
    # What is measured so shortly says that it runs, and nothing else.
    print(report.brief() if said.smoke else report.markdown())
    _give_json(report, said.json)
    missed = report.missed() if said.check else []
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if missed or report.failures else 0


def chosen(words: list[str], has_pure: bool) -> list[str]:
    """Return the scenarios that names and letters stand for, in their order.

    Without words that is the table of targets. What is about the pure build is left out
    where there is none.
    """
    found = [
        name
        for word in words
        for name, scenario in SCENARIOS.items()
        if word in (name, scenario.letter, "all")
    ]
    return [
        name
        for name in dict.fromkeys(found if words else TARGETS)
        if has_pure or not SCENARIOS[name].is_pure
    ]


def measure(name: str, bench: Bench, open_target: OpenTarget, report: Report) -> None:
    """Measure a scenario on one broker; a failure is noted, and the next goes on.

    A scenario that starts brokers itself has nothing to measure on one that runs.
    """
    scenario = SCENARIOS[name]
    try:
        with open_target(scenario) as target:
            if scenario.starts_brokers and target.started_by is None:
                return
            print(f"{name} on {target.name} ...", file=sys.stderr, flush=True)
            strangers = machine.Strangers(target.pids)
            waited_s = machine.core_wait_seconds(target.pids)
            figures = scenario.measure(bench, target)
            if target.pids:
                figures[STRANGERS] = strangers.cores_used()
                waited_s = machine.core_wait_seconds(target.pids) - waited_s
                figures["waited_for_core_s"] = max(0.0, waited_s)
            if target.started_by is not None:
                target.process.stop()
                busy_ms = target.process.loop_busy_ms()
                figures |= {} if busy_ms is None else {BUSY: busy_ms}
            report.add(name, target.name, figures)
    except (LoadFailed, BrokerFailed) as error:
        print(error, file=sys.stderr)
        report.failures.append(f"{name}: {error}")


def _targets(
    said: argparse.Namespace, generator: Generator, place: Path, running: ExitStack
) -> list[OpenTarget]:
    """Return how to come by each broker: ours first, then the peers."""
    if said.uri:
        ours = _always(Target("amqpd", said.uri, tuple(said.pid), ""))
    elif said.smoke:
        # One start serves all that it can: it takes longer than such a load.
        broker = running.enter_context(started(said.amqpd, BROKER_CORE, place))
        ours = _shared(replace(broker, started_by=None), said, place)
    else:
        ours = _started_for_each(said, place)
    peers = peers_by_url(generator, said.peer, said.peer_pid)
    wanted = said.rabbitmq
    if wanted is None:
        wanted = not (said.scenarios or said.smoke or said.peer)
    if wanted:
        peers += installed_peers(running, generator, BROKER_CORE, place)
    return [ours, *map(_always, peers)]


def _always(target: Target) -> OpenTarget:
    return lambda scenario: nullcontext(target)


def _shared(target: Target, said: argparse.Namespace, place: Path) -> OpenTarget:
    def open_target(scenario: Scenario) -> AbstractContextManager[Target]:
        if scenario.starts_brokers:
            return started(said.amqpd, BROKER_CORE, place)
        return nullcontext(target)

    return open_target


def _started_for_each(said: argparse.Namespace, place: Path) -> OpenTarget:
    def open_target(scenario: Scenario) -> AbstractContextManager[Target]:
        command = said.pure if scenario.is_pure else said.amqpd
        return started(command, BROKER_CORE, place)

    return open_target


def _facts(said: argparse.Namespace, place: Path) -> dict[str, str]:
    facts = machine.facts()
    facts["disk"] = f"{machine.file_system_type(place)} at {place}"
    facts["pinned"] = f"broker to core {BROKER_CORE}, generator to {GENERATOR_CORE}"
    facts["load"] = f"{said.seconds:g} s each, {said.repeats} x"
    facts["backlog"] = f"{said.count:,} messages"
    facts["build"] = said.uri or build_of(said.amqpd)
    return facts


def _give_json(report: Report, path: Path | None) -> None:
    if path is None:
        print()
        print(report.json())
    else:
        path.write_text(report.json() + "\n", encoding="utf-8")
        print(f"the same as JSON, run by run: {path.resolve()}", file=sys.stderr)


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.run", description=(__doc__ or "").partition("\n")[0]
    )
    letters = sorted({scenario.letter for scenario in TARGETS.values()})
    # None at all is looked up among the choices as well, by some versions of argparse.
    words = [*SCENARIOS, *letters, "all", []]
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", choices=words)
    add = parser.add_argument
    add("--seconds", type=float, default=6.0, help="length of a load")
    add("--count", type=int, default=1_000_000, help="messages of a backlog")
    add("--repeats", type=int, help="runs that the median is taken of")
    add("--smoke", action="store_true", help="a little of the table and of mixed")
    add("--amqpd", default=installed_command(), help="the command to start it by")
    add("--pure", help="the same of the pure build, for row k")
    add("--uri", help="measure a broker that runs already")
    add("--pid", type=int, action="append", default=[], help="its process")
    add("--rabbitmq", action=argparse.BooleanOptionalAction, help="start RabbitMQ, too")
    add("--peer", action="append", default=[], help="[NAME=]URL of another broker")
    add("--peer-pid", action="append", default=[], help="[NAME=]PID of its process")
    add("--directory", type=Path, help="where data directories go")
    add("--amqpload", type=Path, help="the generator, compiled")
    add("--json", type=Path, help="write the JSON to this file")
    add("--check", action="store_true", help="exit 1 if a figure misses its limit")
    return parser


if __name__ == "__main__":
    sys.exit(main())
