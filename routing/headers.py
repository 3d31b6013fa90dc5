"""Headers exchange: the binding's arguments are compared with the message's headers.

`x-match` says how: `all` (the default) or `any` of the arguments must match; arguments
that begin with `x-` take no part unless it is `all-with-x` or `any-with-x`. A void
argument asks only whether the header is there. A header has to be equal in type as
well, except that all integer types are one and so are both floating-point types: see
`_comparable`. No argument left to compare means `all` matches everything and `any`
nothing, as in RabbitMQ.

A message is not held against every binding. Each binding waits under headers that it
needs: an `any` binding under each of its arguments, an `all` binding under that one of
them where the fewest wait already, so that a value which all bindings share does not
gather them all. A message looks up its own headers and checks those that wait there:

    _waiting["format"].by_value["pdf"]     bindings that may match format = pdf
    _waiting["format"].by_presence         bindings with a void "format"

Of a message only those headers are asked for that some binding compares.
"""

from decimal import Decimal
from typing import Final, final

from routing.binding import Binding, BindingTable, Target
from routing.errors import BindingInvalid, BindingTypeInvalid
from routing.routable import Routable

_MATCH_KEY: Final = "x-match"
_MATCH_ALL: Final = ("all", "all-with-x")
_MATCH_ANY: Final = ("any", "any-with-x")
_MATCH_WITH_X: Final = ("all-with-x", "any-with-x")


@final
class _Criterion:
    """One argument of a binding."""

    __slots__ = ("is_presence", "name", "value")

    def __init__(self, name: str, value: object) -> None:
        self.name = name
        self.is_presence = value is None
        self.value = _comparable(value)

    def is_met_by(self, headers: dict[str, object]) -> bool:
        """Whether the headers, made comparable, have it."""
        if self.is_presence:
            return self.name in headers
        # The value of a criterion that has one is not None.
        return headers.get(self.name) == self.value


@final
class _Rule:
    """What one binding asks of a message."""

    __slots__ = ("awaited", "criteria", "needs_all", "target")

    def __init__(self, binding: Binding, target: Target) -> None:
        mode = _mode_of(binding)
        with_x = mode in _MATCH_WITH_X
        self.target = target
        self.needs_all = mode in _MATCH_ALL
        self.criteria: list[_Criterion] = []
        for name, value in binding.arguments.items():
            if name != _MATCH_KEY and (with_x or not name.startswith("x-")):
                self.criteria.append(_Criterion(name, value))
        #: The criteria under which the rule waits.
        self.awaited = self.criteria

    def is_met_by(self, headers: dict[str, object]) -> bool:
        """Say whether a message matches that meets an awaited criterion."""
        if self.needs_all:
            for criterion in self.criteria:
                if not criterion.is_met_by(headers):
                    return False
        return True


@final
class _Waiting:
    """The rules that wait under one header."""

    __slots__ = ("by_presence", "by_value")

    def __init__(self) -> None:
        self.by_presence: dict[Binding, _Rule] = {}
        self.by_value: dict[object, dict[Binding, _Rule]] = {}

    def add(self, criterion: _Criterion, binding: Binding, rule: _Rule) -> None:
        if criterion.is_presence:
            self.by_presence[binding] = rule
        else:
            self.by_value.setdefault(criterion.value, {})[binding] = rule

    def remove(self, criterion: _Criterion, binding: Binding) -> None:
        if criterion.is_presence:
            del self.by_presence[binding]
            return
        same_value = self.by_value[criterion.value]
        del same_value[binding]
        if not same_value:
            del self.by_value[criterion.value]

    def count(self, criterion: _Criterion) -> int:
        """Return how many wait for the same."""
        if criterion.is_presence:
            return len(self.by_presence)
        return len(self.by_value.get(criterion.value, ()))

    def is_empty(self) -> bool:
        return not self.by_presence and not self.by_value


@final
class HeadersTable(BindingTable):
    """The bindings of a headers exchange, each under what it waits for."""

    def __init__(self, arguments: dict[str, object]) -> None:
        super().__init__(arguments)
        self.asks_message = True
        self.asks_only_headers = True
        # The headers that are compared, by the octets of their names, and by how many
        # criteria.
        self._names: dict[bytes, str] = {}
        self._name_counts: dict[str, int] = {}
        self._rules: dict[Binding, _Rule] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._unconditional: dict[Binding, Target] = {}

    def add(self, binding: Binding, target: Target) -> None:
        rule = _Rule(binding, target)
        self._rules[binding] = rule
        for criterion in rule.criteria:
            self._note_name(criterion.name)
        if rule.needs_all and rule.criteria:
            rule.awaited = [self._least_awaited(rule.criteria)]
        for criterion in rule.awaited:
            waiting = self._waiting.get(criterion.name)
            if waiting is None:
                waiting = self._waiting[criterion.name] = _Waiting()
            waiting.add(criterion, binding, rule)
        if rule.needs_all and not rule.criteria:
            self._unconditional[binding] = target

    def remove(self, binding: Binding) -> None:
        self._unconditional.pop(binding, None)
        rule = self._rules.pop(binding)
        for criterion in rule.criteria:
            self._forget_name(criterion.name)
        for criterion in rule.awaited:
            waiting = self._waiting[criterion.name]
            waiting.remove(criterion, binding)
            if waiting.is_empty():
                del self._waiting[criterion.name]

    def match(self, routable: Routable, found: list[Target]) -> None:
        found.extend(self._unconditional.values())
        if not self._names:
            return
        headers: dict[str, object] = {}
        for name, value in routable.headers_among(self._names).items():
            if name in self._name_counts:
                headers[name] = _comparable(value)
        for name, value in headers.items():
            waiting = self._waiting.get(name)
            if waiting is None:
                continue
            if waiting.by_presence:
                _append_met(waiting.by_presence, headers, found)
            if waiting.by_value:
                same_value = waiting.by_value.get(value)
                if same_value is not None:
                    _append_met(same_value, headers, found)

    def _note_name(self, name: str) -> None:
        count = self._name_counts.get(name, 0)
        if not count:
            self._names[_octets(name)] = name
        self._name_counts[name] = count + 1

    def _forget_name(self, name: str) -> None:
        self._name_counts[name] -= 1
        if not self._name_counts[name]:
            del self._name_counts[name]
            del self._names[_octets(name)]

    def _least_awaited(self, criteria: list[_Criterion]) -> _Criterion:
        """Return the criterion under which the fewest rules wait."""
        least, count_min = criteria[0], -1
        for criterion in criteria:
            waiting = self._waiting.get(criterion.name)
            count = 0 if waiting is None else waiting.count(criterion)
            if count_min < 0 or count < count_min:
                least, count_min = criterion, count
        return least


def _append_met(
    rules: dict[Binding, _Rule], headers: dict[str, object], found: list[Target]
) -> None:
    for rule in rules.values():
        if rule.is_met_by(headers):
            found.append(rule.target)


def _octets(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _mode_of(binding: Binding) -> str:
    """Return the value of x-match; the texts are RabbitMQ's."""
    mode = binding.arguments.get(_MATCH_KEY, "all")
    if not isinstance(mode, str):
        raise BindingTypeInvalid(_MATCH_KEY, mode)
    if mode not in _MATCH_ALL and mode not in _MATCH_ANY:
        raise BindingInvalid(
            f'Invalid x-match field value <<"{mode}">>; '
            "expected all, any, all-with-x, or any-with-x"
        )
    return mode


def _comparable(value: object) -> object:
    """Return a value that is hashable and equal exactly to those of equal type.

    Python thinks True == 1 == 1.0 == Decimal(1); a headers exchange does not. Strings
    and integers, which nearly all headers are, stay as they are. A decimal is equal to
    one of the same scale only, since RabbitMQ compares scale and digits.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return ("float", value)
    if isinstance(value, bytearray):
        return ("binary", bytes(value))
    if isinstance(value, Decimal):
        return ("decimal", value.as_tuple())
    if isinstance(value, list):
        return ("array", tuple([_comparable(item) for item in value]))
    if isinstance(value, dict):
        pairs = [(key, _comparable(item)) for key, item in value.items()]
        return ("table", frozenset(pairs))
    return value
