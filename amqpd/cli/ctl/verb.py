"""A verb: its name, what it takes, and the function that does it.

Arguments are written as a help text would: "user password?" is one that must be given
and one that may be, "tag*" any number. The words also say to shell completion what to
offer: a `queue`, a `vhost`, a `user`.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from typing import Final, NamedTuple

from amqpd.cli.ctl.api import Api
from amqpd.cli.ctl.errors import EXIT_DATA, Failure
from amqpd.cli.ctl.table import Answer

DEFAULT_VHOST: Final = "/"


class Option(NamedTuple):
    """Something that may be given by name; one without a metavar is a flag."""

    name: str
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    default: str | None = None

    @property
    def key(self) -> str:
        """Its name in what was said."""
        return self.name.lstrip("-").replace("-", "_")


class Call(NamedTuple):
    """A verb being done: for whom it asks, and what was said on the command line."""

    api: Api
    said: Namespace
    timeout_s: float
    #: As `rabbitmqctl` would answer, not as people and programs read best.
    is_rabbitmqctl: bool = False

    @property
    def vhost(self) -> str:
        """The virtual host that is meant."""
        vhost: str | None = self.said.vhost
        return DEFAULT_VHOST if vhost is None else vhost

    def note(self, text: str) -> None:
        """Tell people something that is no part of the answer."""
        if not self.said.quiet and not self.said.silent:
            print(text, file=sys.stderr)


class Verb(NamedTuple):
    """A row of the table of verbs."""

    name: str
    run: Callable[[Call], Answer]
    help: str
    arguments: str = ""
    options: tuple[Option, ...] = ()
    #: What `rabbitmqctl` announces, with what was said put in.
    banner: str = ""
    #: What "column*" may be.
    columns: tuple[str, ...] = ()

    def banner_for(self, call: Call) -> str:
        """Return the announcement."""
        words = {name: _listed(value) for name, value in vars(call.said).items()} | {
            "vhost": call.vhost
        }
        return self.banner.format_map(words)


def _listed(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def secret(given: str | None, what: str) -> str:
    """Return a password: as given, or asked for, or the line that is piped in.

    Raises:
        Failure: there is none.
    """
    if given is not None:
        return given
    if sys.stdin.isatty():
        from getpass import getpass

        given = getpass(f"{what}: ")
    else:
        given = sys.stdin.readline().rstrip("\r\n")
    if not given:
        raise Failure(f"{what} is not provided via argument or stdin", EXIT_DATA)
    return given


def parsed_json(text: str, what: str) -> object:
    """Return what a JSON argument says.

    Raises:
        Failure: it is not JSON.
    """
    import json

    try:
        value: object = json.loads(text)
    except ValueError as error:
        hint = "quote it for the shell: '{\"max-length\": 10}'"
        raise Failure(f"{what} is not JSON: {error}", EXIT_DATA, hint) from error
    return value


def json_object(text: str, what: str) -> dict[str, object]:
    """Return what a JSON object says.

    Raises:
        Failure: it is something else.
    """
    value = parsed_json(text, what)
    if not isinstance(value, dict):
        raise Failure(f"{what} must be a JSON object, like '{{\"a\": 1}}'", EXIT_DATA)
    return value
