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
Short flags are those of RabbitMQ's PerfTest, and mean the same: rate, count and
prefetch are those of each producer and consumer. What was declared is deleted at the
end, a queue that was there before stays. The generator runs on one core and says so
when that was the limit.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.epilog = EPILOG
    add = parser.add_argument
    add("--url", "--uri", default="amqp://guest:guest@localhost:5672", metavar="URL")
    add("-x", "--producers", type=int, default=1, metavar="N")
    add("-y", "--consumers", type=int, default=1, metavar="N")
    add("--queues", type=int, default=1, metavar="N")
    add("-s", "--size", type=int, default=1024, metavar="BYTES", help="of a body")
    add("-r", "--rate", type=float, default=0, metavar="PER_S", help="of each producer")
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument(
        "-C",
        "--count",
        "--pmessages",
        type=int,
        metavar="N",
        help="messages of each producer; without producers, of each consumer",
    )
    limit.add_argument(
        "-z", "--seconds", "--time", type=float, default=10, help="10 if not said"
    )
    add("--persistent", action="store_true", help="messages that go to the disk")
    add(
        "-c",
        "--confirm",
        type=int,
        default=0,
        metavar="WINDOW",
        help="publisher confirms, and how many may be waited for",
    )
    add("--ack", choices=("manual", "auto"), default="manual")
    add("-a", "--autoack", action="store_const", dest="ack", const="auto")
    add("-A", "--ack-every", "--multi-ack-every", type=int, default=1, metavar="N")
    add("-q", "--prefetch", "--qos", type=int, default=0, metavar="N", help="0: all")
    add("-t", "--exchange", "--type", choices=EXCHANGE_TYPES, default="direct")
    add(
        "-u",
        "--queue",
        metavar="NAME",
        help="use this one, or NAME-1, NAME-2 ...; made if it is not there",
    )
    add("--queue-type", choices=QUEUE_TYPES)
    add("--queue-args", metavar="KEY=VALUE,...", help="such as x-max-length=1000")
    add("--keep", action="store_true", help="leave the queues, with what is in them")
    add("--verify", action="store_true", help="count what is lost, doubled, disordered")
    add("--reconnect", action="store_true", help="go on when a lost broker is back")
    add("--json", action="store_true", help="one JSON object on standard output")
    add("--quiet", action="store_true", help="no progress on standard error")


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
