"""The command `amqpd`: serve, look at the configuration, ask whether it is alive.

    amqpd serve [--config FILE] [--data-dir DIR] [--host HOST]... [--port PORT]
                [--tls-port PORT] [--tls-cert FILE] [--tls-key FILE] [--tls-ca FILE]
                [--http-port PORT] [--prometheus-port PORT]
                [--log-level LEVEL] [--log-format FORMAT]
    amqpd config check|show [the same flags]
    amqpd ping [--host HOST] [--port PORT] [--tls]
    amqpd store inspect|verify|repair DIR
    amqpd bench [--url URL] [--verify] ...

argparse, and every import below the command that needs it: a broker that is started
for one test should not spend its time on drawing help texts.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from amqpd import __version__, build_kind
from amqpd.config import ConfigInvalid, Loaded, load
from amqpd.neighbours import NeighbourHidden, check_neighbours
from amqpd.process import keep_little_memory
from amqpd.settings import BY_KEY, Choice

#: sysexits.h: the configuration is wrong.
EXIT_CONFIG: Final = 78
#: sysexits.h: the service is not available.
EXIT_UNAVAILABLE: Final = 69

#: Settings that have a flag, with its help.
_FLAGS: Final = {
    "data_dir": "where messages and metadata are kept",
    "host": "address to listen on, may be repeated; localhost is 127.0.0.1 and ::1",
    "port": "port to listen on; 0 takes a free one, none is none",
    "tls.port": "port to listen on with TLS, on the same addresses; 0 is none",
    "tls.cert": "its certificate, and what it was signed with: a PEM file",
    "tls.key": "the key of the certificate, if it is in another file",
    "tls.ca": "whose certificates of clients are believed (see tls.verify)",
    "http.port": "port of the management API, on the same addresses; 0 is none",
    "prometheus.port": "port of /metrics, on the same addresses; 0 is none",
    "log.level": "the least important record that is written",
    "log.format": "how records look",
}


_STORE_ACTIONS: Final = {
    "inspect": "print segments, their garbage, and what each queue holds",
    "verify": "read everything and say what is damaged; nothing is changed",
    "repair": "move what a start refuses to quarantine/; nothing is deleted",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == ["bench"]:
        return _bench(words[1:])
    said = _parser().parse_args(words)
    if said.command == "ping":
        return _ping(said.host, said.port, said.tls)
    if said.command == "store":
        return _store(said)
    try:
        loaded = _load(said)
    except ConfigInvalid as error:
        print(f"amqpd: {error}", file=sys.stderr)
        return EXIT_CONFIG
    if said.command == "config":
        return _show(loaded) if said.action == "show" else _check(loaded)
    try:
        check_neighbours()
    except NeighbourHidden as error:
        print(f"amqpd: {error}", file=sys.stderr)
        return EXIT_CONFIG
    # Before anything large is imported.
    keep_little_memory()
    from amqpd.launcher import run

    return run(loaded, lambda: _load(said))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="amqpd", description="An AMQP 0-9-1 queue server."
    )
    version = f"amqpd {__version__} ({build_kind()})"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="run the broker")
    _add_flags(serve)
    config = commands.add_parser("config", help="look at the effective configuration")
    actions = config.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_flags(actions.add_parser("check", help="say whether it can be used"))
    _add_flags(actions.add_parser("show", help="print each value and its origin"))
    ping = commands.add_parser(
        "ping", help="exit 0 if a broker speaks AMQP 0-9-1 there, 69 if not"
    )
    ping.add_argument("--host", default="127.0.0.1")
    ping.add_argument("--port", type=int, default=BY_KEY["port"].default)
    ping.add_argument("--tls", action="store_true", help="the port is one with TLS")
    # For the list of commands; its flags are only looked at by itself.
    commands.add_parser("bench", help="measure and verify a broker", add_help=False)
    _add_store(commands.add_parser("store", help="see to a broker's data directory"))
    return parser


def _add_store(store: argparse.ArgumentParser) -> None:
    actions = store.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, text in _STORE_ACTIONS.items():
        action = actions.add_parser(
            name,
            help=text,
            epilog="Exits 0 if the directory is sound, 1 if it is damaged, 2 if it "
            "cannot be read. A broker must not be using it.",
        )
        action.add_argument("directory", type=Path, metavar="DIR")
        action.set_defaults(json=False)
        if name == "inspect":
            action.add_argument("--json", action="store_true", help="for programs")


def _add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="a TOML file, or a rabbitmq.conf if its name ends in .conf",
    )
    for key, text in _FLAGS.items():
        kind = BY_KEY[key].kind
        parser.add_argument(
            "--" + key.replace("_", "-").replace(".", "-"),
            dest=key,
            action="append" if key == "host" else "store",
            metavar="|".join(kind.words) if isinstance(kind, Choice) else None,
            help=text,
        )


def _load(said: argparse.Namespace) -> Loaded:
    flags = {key: value for key in _FLAGS if (value := vars(said)[key]) is not None}
    return load(said.config, os.environ, flags)


def _show(loaded: Loaded) -> int:
    rows = list(loaded.rows())
    key_width = max(len(key) for key, _, _ in rows)
    value_width = max(len(value) for _, value, _ in rows)
    for key, value, origin in rows:
        print(f"{key:{key_width}} = {value:{value_width}}  # {origin}")
    return _warn(loaded.warnings)


def _check(loaded: Loaded) -> int:
    # Only here: it takes as long as everything else.
    from amqpd.net.tls import check_tls

    try:
        tls = check_tls(loaded)
    except ConfigInvalid as error:
        print(f"amqpd: {error}", file=sys.stderr)
        return EXIT_CONFIG
    print("The configuration can be used.")
    return _warn((*loaded.warnings, *(tls.warnings if tls else ())))


def _warn(warnings: Sequence[str]) -> int:
    for warning in warnings:
        print(f"amqpd: {warning}", file=sys.stderr)
    return 0


def _ping(host: str, port: int, is_tls: bool) -> int:
    from amqpd.cli.ping import NoAnswer, ping

    try:
        ping(host, port, is_tls=is_tls)
    except NoAnswer as error:
        print(f"amqpd: {error}", file=sys.stderr)
        return EXIT_UNAVAILABLE
    print(f"{host}:{port} speaks AMQP 0-9-1.")
    return 0


def _store(said: argparse.Namespace) -> int:
    try:
        check_neighbours()
    except NeighbourHidden as error:
        print(f"amqpd: {error}", file=sys.stderr)
        return EXIT_CONFIG
    from amqpd.cli.store import run

    return run(said.action, said.directory, said.json)


def _bench(words: list[str]) -> int:
    from amqpd.cli.bench import add_arguments, bench

    parser = argparse.ArgumentParser(
        prog="amqpd bench",
        description="Publish and consume at any AMQP 0-9-1 broker, and measure it.",
    )
    add_arguments(parser)
    return bench(parser.parse_args(words))
