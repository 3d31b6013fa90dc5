"""One run from the options to the figures: the order of things, and what goes wrong.

Declared is deleted however a run ends: by its count, its time, Ctrl-C or the loss of
the broker. What fails before the first message is an error; what fails later leaves
figures that say so.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

from amqpd.bench.connection import Connection
from amqpd.bench.crew import Crew
from amqpd.bench.errors import RunFailed
from amqpd.bench.figures import COMPLETE, FAILED, INTERRUPTED, Figures, Latency
from amqpd.bench.load import Load, Observer
from amqpd.bench.message import RUN_MAX
from amqpd.bench.options import Options
from amqpd.bench.plan import Plan
from amqpd.bench.topology import Topology
from amqpd.bench.verdict import judge

_SECOND: Final = 1_000_000_000


def run(
    options: Options, observer: Observer, complain: Callable[[str], None]
) -> Figures:
    """Do a run and return what it showed.

    `observer` is told once a second how it goes, and `complain` what could not be
    deleted afterwards.

    Raises:
        BenchError: it could not begin.
    """
    options.check()
    # Not 0: that is what a body without a stamp looks like.
    number = 1 + secrets.randbelow(RUN_MAX)
    topology = Topology(options, secrets.token_hex(4))
    control = Connection(options.target, "amqpd bench: control")
    try:
        plan = Plan(options)
        crew = Crew(options, plan, topology, number, control.frame_max)
        try:
            topology.declare(control)
            crew.open()
            return _measured(options, plan, crew, topology, control, observer)
        finally:
            crew.disconnect()
    finally:
        control.close()
        for text in topology.delete():
            complain(text)


def _measured(
    options: Options,
    plan: Plan,
    crew: Crew,
    topology: Topology,
    control: Connection,
    observer: Observer,
) -> Figures:
    figures = Figures(
        broker=control.broker,
        target=f"{options.target}, virtual host {options.target.vhost}",
        asked=options.as_json(),
        is_same_machine=control.is_same_machine,
        rate_asked=options.rate * options.producers,
    )
    load = Load(options, crew, topology, control, observer)
    try:
        load.run()
    except RunFailed as error:
        figures.end, figures.failure = FAILED, str(error)
    except KeyboardInterrupt:
        figures.end = INTERRUPTED
    load.end()
    _fill(figures, load, crew)
    if options.verify:
        figures.verdict = judge(
            plan,
            [sender.producer for sender in crew.senders],
            [receiver.consumer for receiver in crew.receivers],
            crew.ledgers,
            is_whole=figures.end == COMPLETE,
        )
    return figures


def _fill(figures: Figures, load: Load, crew: Crew) -> None:
    figures.counts = crew.counts()
    figures.publish_s = load.publish_cost.wall_s
    last_at = max((int(each.consumer.last_at) for each in crew.receivers), default=0)
    figures.deliver_s = last_at / _SECOND
    figures.latency = Latency.of(load.latency)
    figures.confirm_latency = Latency.of(load.confirm_latency)
    figures.blocked_s = load.blocked_ns / _SECOND
    figures.blocked = load.blocked
    figures.publish_cost = load.publish_cost
    figures.cost = load.cost
    figures.left_in_queues = load.left_in_queues
    figures.reconnects = load.reconnects
