"""The brokers that ours is compared with: one that is found here, others by URL.

RabbitMQ is started if the machine has it (rabbitmq.py). Whatever else runs somewhere
can take part by its URL; its CPU time and memory are known if it runs here and somebody
says as which process:

    --peer lavinmq=amqp://guest:guest@127.0.0.1:5674/ --peer-pid lavinmq=4711
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

from tests.bench.broker import BrokerFailed, Target
from tests.bench.generator import Generator
from tests.bench.processes import process_tree
from tests.bench.rabbitmq import installed_script, rabbitmq


def named(text: str) -> tuple[str, str]:
    """Return the name and the value of NAME=VALUE; the name is "" if there is none."""
    name, equals, value = text.partition("=")
    if not equals or "://" in name:
        return "", text
    return name, value


def pids_of(name: str, said: list[str]) -> tuple[int, ...]:
    """Return the processes that were said for a peer: NAME=PID, or PID for any."""
    found: list[int] = []
    for text in said:
        owner, pid = named(text)
        if owner in ("", name):
            found += process_tree(int(pid))
    return tuple(dict.fromkeys(found))


def peers_by_url(
    generator: Generator, urls: list[str], pids: list[str]
) -> list[Target]:
    """Return the peers that run already; one without a name is called what it says.

    Raises:
        LoadFailed: one does not answer.
    """
    found: list[Target] = []
    for text in urls:
        name, url = named(text)
        who = generator.run(Target(name, url, (), ""), "--mode", "wait")
        build = f"{who['server']} {who['server_version']}"
        found.append(Target(name or build, url, pids_of(name, pids), build))
    return found


def installed_peers(
    running: ExitStack, generator: Generator, core: int | None, parent: Path
) -> list[Target]:
    """Start the peers that this machine has; they end with `running`."""
    script = installed_script()
    if script is None:
        print("no RabbitMQ is installed here: nothing to compare with", file=sys.stderr)
        return []
    print(f"starting {script} ...", file=sys.stderr, flush=True)
    try:
        return [running.enter_context(rabbitmq(script, generator, core, parent))]
    except BrokerFailed as error:
        print(f"without a peer: {error}", file=sys.stderr)
        return []
