"""Shell completion: verbs, options, and the names of what is there.

The scripts know nothing: they hand over the words of the half-written command, the last
of which is being completed, and get candidates, a line each, with what it is after a
tab. So all shells complete alike, and what the broker holds can be offered, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from amqpd.cli.ctl.api import Api
from amqpd.cli.ctl.errors import Failure
from amqpd.cli.ctl.table import Answer
from amqpd.cli.ctl.verb import DEFAULT_VHOST, Call, Option, Verb

#: Nobody waits longer for a tab.
TIMEOUT_S: Final = 1.0

SCRIPTS: Final = {
    "bash": """_amqpctl() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$(printf %q "${line%%$'\\t'*}")")
    done < <(amqpctl complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _amqpctl amqpctl
""",
    "zsh": """#compdef amqpctl
_amqpctl() {
    local line
    local -a found
    while IFS= read -r line; do
        found+=("${line%%$'\\t'*}")
    done < <(amqpctl complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( $#found )); then compadd -a found; else _files; fi
}
compdef _amqpctl amqpctl
""",
    "fish": """function __amqpctl_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    amqpctl complete $before[2..] "$current" 2>/dev/null
end
complete -c amqpctl -f -a '(__amqpctl_complete)'
complete -c amqpctl -F \\
    -n '__fish_seen_subcommand_from export_definitions import_definitions'
""",
}

#: Where the names are that an argument may be: path, then the field.
_NAMES: Final = {
    "queue": ("queues", "name"),
    "exchange": ("exchanges", "name"),
    "policy": ("policies", "name"),
}
_NAMES_ANYWHERE: Final = {
    "user": ("users", "name"),
    "virtual_host": ("vhosts", "name"),
    "VHOST": ("vhosts", "name"),
    "USER": ("users", "name"),
    "connection": ("connections", "name"),
}
_WORDS: Final = {
    "tag": ("administrator", "monitoring", "policymaker", "management"),
    "shell": tuple(SCRIPTS),
}


class Shared(NamedTuple):
    """The options of every verb: all of them, and the metavars of the valued ones."""

    names: Mapping[str, str]
    metavars: Mapping[str, str]


def candidates(
    words: Sequence[str],
    verbs: Mapping[str, Verb],
    shared: Shared,
    api: Callable[[float], Api],
) -> Iterator[str]:
    """Yield what the last word may become."""
    *before, current = words or [""]
    verb, position = _place(before, verbs, shared)
    for word, text in _offers(before, current, verb, position, verbs, shared, api):
        if word.startswith(current):
            yield f"{word}\t{text}" if text else word


def _place(
    before: Sequence[str], verbs: Mapping[str, Verb], shared: Shared
) -> tuple[Verb | None, int]:
    """Return the verb, and how many of its arguments are there."""
    verb: Verb | None = None
    position = 0
    is_value = False
    for word in before:
        if is_value:
            is_value = False
        elif word.startswith("-"):
            is_value = _metavar(word, verb, shared) != ""
        elif verb is None:
            verb = verbs.get(word, Verb(word, _nothing, ""))
        else:
            position += 1
    return verb, position


def _nothing(call: Call) -> Answer:
    """Stand for a verb that there is not, which takes nothing."""
    return None


def _metavar(word: str, verb: Verb | None, shared: Shared) -> str:
    """Return what follows an option, "" if nothing does."""
    if word in shared.metavars:
        return shared.metavars[word]
    option = _option(word, verb)
    if option is None:
        return ""
    return "|".join(option.choices) or option.metavar


def _option(word: str, verb: Verb | None) -> Option | None:
    options = () if verb is None else verb.options
    return next((option for option in options if option.name == word), None)


def _offers(
    before: Sequence[str],
    current: str,
    verb: Verb | None,
    position: int,
    verbs: Mapping[str, Verb],
    shared: Shared,
    api: Callable[[float], Api],
) -> Iterable[tuple[str, str]]:
    metavar = _metavar(before[-1], verb, shared) if before else ""
    if metavar:
        return _values(metavar, before, verb, api)
    if current.startswith("-"):
        own = {} if verb is None else {each.name: each.help for each in verb.options}
        return [*own.items(), *shared.names.items()]
    if verb is None:
        return [(each.name, each.help) for each in verbs.values()]
    kinds = verb.arguments.split()
    if position < len(kinds):
        kind = kinds[position]
    elif kinds and kinds[-1][-1] in "*+":
        kind = kinds[-1]
    else:
        return []
    return _values(kind.rstrip("?*+"), before, verb, api)


def _values(
    kind: str, before: Sequence[str], verb: Verb | None, api: Callable[[float], Api]
) -> Iterable[tuple[str, str]]:
    if "|" in kind:
        return [(word, "") for word in kind.split("|")]
    if kind == "column" and verb is not None:
        return [(column, "") for column in verb.columns]
    if kind in _WORDS:
        return [(word, "") for word in _WORDS[kind]]
    if kind in _NAMES:
        path, field = _NAMES[kind]
        return _there(api, field, path, _vhost(before))
    if kind in _NAMES_ANYWHERE:
        path, field = _NAMES_ANYWHERE[kind]
        return _there(api, field, path)
    return []


def _vhost(before: Sequence[str]) -> str:
    for option, value in itertools.pairwise(before):
        if option in ("-p", "--vhost"):
            return value
    return DEFAULT_VHOST


def _there(
    api: Callable[[float], Api], field: str, *path: str
) -> Iterable[tuple[str, str]]:
    try:
        with api(TIMEOUT_S) as there:
            found = there.get(*path, query={"columns": field})
    except Failure:
        # Somebody pressed a key; nobody asked for an error.
        return []
    return [(item[field], "") for item in found if item.get(field)]
