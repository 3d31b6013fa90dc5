"""From a command line to a verb, and from what it answers to the terminal.

Options may stand before the verb and after it, as `rabbitmqctl` has it, so the verb is
looked for first and then one parser made, for that verb alone: parsers for all of them
would take as long as everything else.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Final, NoReturn, TextIO

from amqpd.cli.ctl.api import DEFAULT_URL, Api
from amqpd.cli.ctl.errors import EXIT_OK, EXIT_USAGE, Failure, UsageError
from amqpd.cli.ctl.table import FORMATS, write
from amqpd.cli.ctl.verb import Call, Option, Verb
from amqpd.cli.ctl.verbs import BY_NAME, GROUPS, find, nearest

TIMEOUT_S: Final = 60.0

#: Options of every verb that are followed by a value.
VALUED: Final = (
    ("-p", "--vhost", "VHOST", 'the virtual host that is meant; "/" if none is given'),
    ("", "--url", "URL", f"the HTTP API, {DEFAULT_URL}; or set AMQPCTL_URL"),
    ("-t", "--timeout", "SECONDS", "how long to wait for the broker"),
    ("", "--formatter", "|".join(FORMATS), "how answers are written"),
    ("-n", "--node", "NODE", argparse.SUPPRESS),
    ("", "--erlang-cookie", "COOKIE", argparse.SUPPRESS),
    ("", "--script-name", "NAME", argparse.SUPPRESS),
    ("", "--printer", "PRINTER", argparse.SUPPRESS),
)
FLAGS: Final = (
    ("", "--json", "write JSON, as --formatter json does"),
    ("-q", "--quiet", "say nothing but the answer"),
    ("-s", "--silent", "no column names either"),
    ("", "--no-table-headers", "no column names"),
    ("-l", "--longnames", argparse.SUPPRESS),
)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        hint = self.format_usage().removeprefix("usage: ").strip()
        raise UsageError(message, " ".join(hint.split()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `amqpctl` and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["complete"]:
        # What the scripts of `amqpctl completion` ask; the words are half a command.
        return _complete(words[1:])
    return run("amqpctl", words)


def run(program: str, arguments: Sequence[str], is_rabbitmqctl: bool = False) -> int:
    """Do what the command line says and return the exit code."""
    out = sys.stdout
    if isinstance(out, TextIOWrapper):
        # A name may have any octets; they are printed as they are.
        out.reconfigure(errors="surrogateescape")
    try:
        name, rest = find_verb(arguments)
        if name is None or name == "help":
            return _help(program, rest, is_asked=name == "help" or _asks(rest))
        verb = find(name)
        if verb is None:
            raise UsageError(f'unknown verb "{name}"', nearest(program, name))
        said = verb_parser(program, verb).parse_intermixed_args(rest)
        return _do(verb, said, out, is_rabbitmqctl)
    except Failure as error:
        _complain(program, error, is_rabbitmqctl)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # `amqpctl list_queues | head` has seen enough; so that the end is silent, too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
        return EXIT_OK


def find_verb(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the first word that is no option, and everything else."""
    valued = {name for row in VALUED for name in row[:2] if name}
    rest = list(arguments)
    index = 0
    while index < len(rest):
        word = rest[index]
        if not word.startswith("-") or word == "-":
            return word, rest[:index] + rest[index + 1 :]
        index += 2 if word in valued else 1
    return None, rest


def verb_parser(program: str, verb: Verb) -> argparse.ArgumentParser:
    """Return the parser for one verb."""
    parser = _Parser(
        prog=f"{program} {verb.name}",
        description=verb.help,
        epilog=f"columns: {' '.join(verb.columns)}" if verb.columns else None,
        allow_abbrev=False,
    )
    for word in verb.arguments.split():
        count = word[-1] if word[-1] in "?*+" else None
        parser.add_argument(word.rstrip("?*+"), nargs=count)
    for option in verb.options:
        _add(parser, option)
    shared = parser.add_argument_group("options of every verb")
    for short, name, metavar, text in VALUED:
        flags = [name for name in (short, name) if name]
        shared.add_argument(*flags, metavar=metavar, help=text)
    for short, name, text in FLAGS:
        flags = [name for name in (short, name) if name]
        shared.add_argument(*flags, action="store_true", help=text)
    return parser


def _add(parser: argparse.ArgumentParser, option: Option) -> None:
    if not option.metavar and not option.choices:
        parser.add_argument(option.name, action="store_true", help=option.help)
        return
    parser.add_argument(
        option.name,
        metavar=option.metavar or None,
        choices=option.choices or None,
        default=option.default,
        help=option.help,
    )


def _complete(words: list[str]) -> int:
    from amqpd.cli.ctl.completion import Shared, candidates

    names = {name: _shown(text) for _, name, _, text in VALUED}
    names |= {name: _shown(text) for _, name, text in FLAGS}
    metavars = {name: metavar for *pair, metavar, _ in VALUED for name in pair if name}
    url = _url(_said_url(words))
    for line in candidates(
        words,
        BY_NAME,
        Shared({name: text for name, text in names.items() if text}, metavars),
        lambda timeout_s: Api(url, timeout_s),
    ):
        print(line)
    return EXIT_OK


def _said_url(words: list[str]) -> str | None:
    return next((b for a, b in itertools.pairwise(words) if a == "--url"), "")


def _shown(text: str) -> str:
    return "" if text == argparse.SUPPRESS else text


def _url(said: str | None) -> str:
    return said or os.environ.get("AMQPCTL_URL") or DEFAULT_URL


def _do(verb: Verb, said: argparse.Namespace, out: TextIO, is_rabbitmqctl: bool) -> int:
    timeout_s = _seconds(said.timeout)
    formatter = _formatter(said, out, is_rabbitmqctl)
    is_quiet = said.quiet or said.silent or formatter in ("json", "csv")
    has_headers = not (said.silent or said.no_table_headers)
    with Api(_url(said.url), timeout_s) as api:
        call = Call(api, said, timeout_s, is_rabbitmqctl)
        if is_rabbitmqctl and verb.banner and not is_quiet:
            print(verb.banner_for(call), flush=True)
        write(verb.run(call), formatter, has_headers, out, is_rabbitmqctl)
    out.flush()
    return EXIT_OK


def _formatter(said: argparse.Namespace, out: TextIO, is_rabbitmqctl: bool) -> str:
    if said.json:
        return "json"
    if said.formatter is None:
        is_for_people = out.isatty() and not is_rabbitmqctl and not said.silent
        return "pretty_table" if is_for_people else "table"
    formatter = str(said.formatter)
    if formatter not in FORMATS:
        raise UsageError(f'unknown formatter "{formatter}"', " ".join(FORMATS))
    return formatter


def _seconds(text: str | None) -> float:
    if text is None or text == "infinity":
        return TIMEOUT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise UsageError(f"--timeout must be a number of seconds, not {text!r}")
    return seconds


def _complain(program: str, error: Failure, is_rabbitmqctl: bool) -> None:
    sys.stdout.flush()
    text = f"Error:\n{error}" if is_rabbitmqctl else f"{program}: {error}"
    print(text, file=sys.stderr)
    if error.hint:
        print(f"{program}: {error.hint}", file=sys.stderr)


def _asks(arguments: list[str]) -> bool:
    return bool({"-h", "--help"} & set(arguments))


def _help(program: str, rest: list[str], is_asked: bool) -> int:
    name, _ = find_verb(rest)
    if name is not None:
        verb = find(name)
        if verb is None:
            raise UsageError(f'unknown verb "{name}"', nearest(program, name))
        verb_parser(program, verb).print_help()
        return EXIT_OK
    lines = [f"usage: {program} [OPTION]... VERB [ARGUMENT]..."]
    for title, verbs in GROUPS:
        lines += ["", f"{title}:"]
        lines += [f"  {verb.name:30} {verb.help}" for verb in verbs]
    lines += ["", f"{program} help VERB says what a verb takes."]
    print("\n".join(lines), file=sys.stdout if is_asked else sys.stderr)
    return EXIT_OK if is_asked else EXIT_USAGE
