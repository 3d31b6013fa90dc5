"""`amqpd bench`: flags to options, figures to standard output, ends to exit codes.

0     done, and what was to be verified is right
1     verified, and it is wrong
64    the options cannot be used
69    the broker is not there, or does not let us
70    the broker was lost while the run went on
130   Ctrl-C
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from typing import Final, NoReturn

from amqpd.bench.errors import BenchError, OptionsInvalid
from amqpd.bench.figures import FAILED, INTERRUPTED, Figures
from amqpd.bench.options import EXCHANGE_TYPES, QUEUE_TYPES, Options, Target
from amqpd.bench.progress import Progress
from amqpd.bench.report import lines
from amqpd.bench.run import run

EXIT_WRONG: Final = 1
EXIT_USAGE: Final = 64
EXIT_UNAVAILABLE: Final = 69
EXIT_SOFTWARE: Final = 70
EXIT_INTERRUPTED: Final = 130

EPILOG: Final = """\
Short flags are those of RabbitMQ's PerfTest and mean the same. What was declared is
deleted at the end, also after Ctrl-C. The generator uses one core, and says so when
that was the limit.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.epilog = EPILOG
    parser.add_argument(
        "--url",
        "--uri",
        default="amqp://guest:guest@localhost:5672",
        metavar="URL",
        help="where the broker is: amqp[s]://user:password@host:port/vhost",
    )
    _add_load(parser.add_argument_group("how much, how fast, how long"))
    _add_promises(parser.add_argument_group("what is promised"))
    _add_topology(parser.add_argument_group("queues and the exchange before them"))
    report = parser.add_argument_group("what is reported")
    report.add_argument(
        "--verify",
        action="store_true",
        help="count messages that are lost, doubled, out of order or not ours; "
        "exit with 1 if there are any",
    )
    report.add_argument(
        "--reconnect", action="store_true", help="go on when a lost broker is back"
    )
    report.add_argument("--json", action="store_true", help="print one JSON object")
    report.add_argument(
        "--quiet", action="store_true", help="no progress on standard error"
    )


def _add_load(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    for flag, name, does in (
        ("-x", "producers", "publish"),
        ("-y", "consumers", "consume"),
    ):
        add(
            flag,
            f"--{name}",
            type=int,
            default=1,
            metavar="N",
            help=f"connections that {does}, 0 for none; 1 if not said",
        )
    add(
        "-s",
        "--size",
        type=int,
        default=1024,
        metavar="BYTES",
        help="of each body, from 16; 1024 if not said",
    )
    add(
        "-r",
        "--rate",
        type=float,
        default=0,
        metavar="PER_S",
        help="messages a second of each producer; as many as it can if not said",
    )
    limit = group.add_mutually_exclusive_group()
    limit.add_argument(
        "-C",
        "--count",
        "--pmessages",
        type=int,
        metavar="N",
        help="messages of each producer; without producers, of each consumer",
    )
    limit.add_argument(
        "-z",
        "--seconds",
        "--time",
        type=float,
        default=10,
        metavar="S",
        help="end after so long; 10 if neither this nor a count is said",
    )


def _add_promises(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--persistent", action="store_true", help="messages outlive the broker")
    add(
        "-c",
        "--confirm",
        type=int,
        default=0,
        metavar="WINDOW",
        help="publisher confirms; so many may be waited for at once",
    )
    add(
        "--ack",
        choices=("manual", "auto"),
        default="manual",
        help="acknowledge deliveries (the default), or have none to acknowledge",
    )
    add(
        "-a",
        "--autoack",
        action="store_const",
        dest="ack",
        const="auto",
        help="the same as --ack auto",
    )
    add(
        "-A",
        "--ack-every",
        "--multi-ack-every",
        type=int,
        default=1,
        metavar="N",
        help="acknowledge so many at once; each one if not said",
    )
    add(
        "-q",
        "--prefetch",
        "--qos",
        type=int,
        default=0,
        metavar="N",
        help="unacknowledged messages of each consumer; no limit if not said",
    )


def _add_topology(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--queues",
        type=int,
        default=1,
        metavar="N",
        help="producers and consumers are spread over them",
    )
    add(
        "-t",
        "--exchange",
        "--type",
        choices=EXCHANGE_TYPES,
        default="direct",
        metavar="TYPE",
        help=f"{', '.join(EXCHANGE_TYPES)}; direct if not said",
    )
    add(
        "-u",
        "--queue",
        metavar="NAME",
        help="the queue's name, or of several: NAME-1, NAME-2; a queue that is there "
        "is used as it is and stays",
    )
    add("--queue-type", choices=QUEUE_TYPES, help="x-queue-type of new queues")
    add(
        "--queue-args",
        metavar="KEY=VALUE,...",
        help="arguments of new queues, such as x-max-length=1000",
    )
    add("--keep", action="store_true", help="leave the queues, with what is in them")


def bench(said: argparse.Namespace) -> int:
    """Do a run as the flags say and return the exit code."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _bench(said)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BenchError as error:
        print(f"amqpd bench: {error}", file=sys.stderr)
        if error.hint:
            print(f"  {error.hint}", file=sys.stderr)
        return EXIT_USAGE if isinstance(error, OptionsInvalid) else EXIT_UNAVAILABLE
    finally:
        signal.signal(signal.SIGTERM, before)


def _bench(said: argparse.Namespace) -> int:
    options = options_from(said)
    with Progress() as progress:
        show = (lambda _: None) if said.quiet else progress.show
        figures = run(options, show, _complain)
    if said.json:
        print(json.dumps(figures.as_json()))
    else:
        print("\n".join(lines(figures)))
    return _exit_code(figures)


def _exit_code(figures: Figures) -> int:
    if figures.end == FAILED:
        return EXIT_SOFTWARE
    if figures.verdict is not None and not figures.verdict.is_fine:
        return EXIT_WRONG
    return EXIT_INTERRUPTED if figures.end == INTERRUPTED else 0


def options_from(said: argparse.Namespace) -> Options:
    """Return what the flags ask for.

    Raises:
        OptionsInvalid: the URL or an argument of a queue cannot be understood.
    """
    return Options(
        target=Target.from_url(said.url),
        producers=said.producers,
        consumers=said.consumers,
        queues=said.queues,
        size=said.size,
        rate=said.rate,
        count=said.count,
        seconds=said.seconds,
        persistent=said.persistent,
        confirm=said.confirm,
        auto_ack=said.ack == "auto",
        ack_every=said.ack_every,
        prefetch=said.prefetch,
        exchange=said.exchange,
        queue=said.queue,
        queue_type=said.queue_type,
        queue_arguments=_queue_arguments(said.queue_args or ""),
        keep=said.keep,
        verify=said.verify,
        reconnect=said.reconnect,
    )


def _queue_arguments(text: str) -> dict[str, object]:
    """Take KEY=VALUE,KEY=VALUE apart; what looks like a number or a truth is one."""
    arguments: dict[str, object] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals or not key:
            raise OptionsInvalid(f"--queue-args {part!r} is not KEY=VALUE")
        if value in ("true", "false"):
            arguments[key] = value == "true"
        else:
            arguments[key] = int(value) if value.lstrip("-").isdigit() else value
    return arguments


def _complain(text: str) -> None:
    print(f"amqpd bench: {text}", file=sys.stderr)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt
