"""One policy: which queues and exchanges it is for, and what it sets for them.

A policy is for what its pattern is found in, anywhere in the name, if it is of a kind
that it applies to (`all`, `queues`, `classic_queues`, ...). An operator policy has the
same shape, is for queues only, and bounds what others may set. A policy is never
changed: a new one takes its place.
"""

from typing import Final, cast, final

from amqpd.auth.permissions import PatternInvalid, compile_pattern
from amqpd.broker.arguments import CLASSIC, QUORUM
from amqpd.broker.erlang_term import erlang_term
from amqpd.broker.policies.policy_keys import REMOVED_KEYS, definition_problem

EXCHANGES: Final = "exchanges"
QUEUES: Final = "queues"
ALL: Final = "all"

_STREAM: Final = "stream"
_APPLY_TO: Final[dict[str, frozenset[str]]] = {
    ALL: frozenset({EXCHANGES, CLASSIC, QUORUM, _STREAM}),
    EXCHANGES: frozenset({EXCHANGES}),
    QUEUES: frozenset({CLASSIC, QUORUM, _STREAM}),
    "classic_queues": frozenset({CLASSIC}),
    "quorum_queues": frozenset({QUORUM}),
    "streams": frozenset({_STREAM}),
}
_CHOICES: Final = (
    "'queues', 'classic_queues', 'quorum_queues', 'streams', 'exchanges', or 'all'"
)


class ParameterInvalid(ValueError):
    """What somebody wants to set is not as it has to be; texts are RabbitMQ's."""


@final
class Policy:
    """A policy of a virtual host, an operator's or not.

    Raises:
        ParameterInvalid: it cannot be one; the text has a line for each problem.
    """

    def __init__(self, name: str, fields: dict[str, object], is_operator: bool) -> None:
        apply_to = fields.get("apply-to", QUEUES if is_operator else ALL)
        problems = _problems(fields, apply_to, is_operator)
        if problems:
            raise ParameterInvalid("\n".join(problems))
        self.name = name
        self.pattern = cast(str, fields["pattern"])
        self.definition = cast(dict[str, object], fields["definition"])
        self.priority = cast(float, fields.get("priority", 0))
        self.apply_to = cast(str, apply_to)
        self.is_operator = is_operator
        self._kinds = _APPLY_TO[self.apply_to]
        self._pattern = compile_pattern(self.pattern)

    def is_for(self, kind: str, name: str) -> bool:
        """Whether it is for `exchanges`, or a type of queue, of that name."""
        return kind in self._kinds and self._pattern.search(name) is not None

    def value(self) -> dict[str, object]:
        """Return it as a parameter's value: all but its name."""
        return {
            "pattern": self.pattern,
            "apply-to": self.apply_to,
            "definition": self.definition,
            "priority": self.priority,
        }

    def removed_keys(self) -> list[str]:
        """Name what it sets that has no meaning any more."""
        return sorted(REMOVED_KEYS & self.definition.keys())


def _problems(
    fields: dict[str, object], apply_to: object, is_operator: bool
) -> list[str]:
    found = [
        _definition_problem(fields.get("definition"), is_operator),
        _apply_to_problem(apply_to),
        _pattern_problem(fields.get("pattern")),
        _priority_problem(fields.get("priority", 0)),
    ]
    return [problem for problem in found if problem]


def _definition_problem(definition: object, is_operator: bool) -> str:
    if not isinstance(definition, dict):
        return f"definition should be an object but was {erlang_term(definition)}"
    return definition_problem(definition, is_operator)


def _apply_to_problem(apply_to: object) -> str:
    if isinstance(apply_to, str) and apply_to in _APPLY_TO:
        return ""
    return f"apply-to '{apply_to}' unrecognised; should be one of: {_CHOICES}"


def _pattern_problem(pattern: object) -> str:
    if not isinstance(pattern, str):
        return f"pattern should be a binary but was {erlang_term(pattern)}"
    try:
        compile_pattern(pattern)
    except PatternInvalid as error:
        return f"pattern should be regular expression but is invalid: {error}"
    return ""


def _priority_problem(priority: object) -> str:
    if isinstance(priority, bool) or not isinstance(priority, (int, float)):
        return f"priority should be a number, actually was {erlang_term(priority)}"
    return ""
