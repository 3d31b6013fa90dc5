"""Any policies and arguments together: the least number holds, the first text does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amqpd.broker.policies.effective_policy import EffectivePolicy, merge
from amqpd.broker.policies.policy import Policy

NUMBERS = ("max-length", "max-length-bytes", "message-ttl", "expires")
LIMIT = "delivery-limit"
TEXT = "overflow"
TEXTS = ("drop-head", "reject-publish", "reject-publish-dlx")

numbers = st.integers(1, 9)
definitions = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(NUMBERS, numbers),
        LIMIT: st.integers(-2, 3),
        TEXT: st.sampled_from(TEXTS),
    },
)


def policy(definition: dict[str, object], is_operator: bool) -> Policy | None:
    if not definition:
        return None
    return Policy("p", {"pattern": "", "definition": definition}, is_operator)


def as_arguments(definition: dict[str, object]) -> dict[str, object]:
    return {"x-" + key: value for key, value in definition.items()}


@given(definitions, definitions, definitions)
def test_the_least_of_three_numbers_holds(
    arguments: dict[str, object], own: dict[str, object], bound: dict[str, object]
) -> None:
    effective = EffectivePolicy(policy(own, False), policy(bound, True))
    found = effective.queue_arguments(as_arguments(arguments))
    said = (arguments, own, bound)
    for key in NUMBERS:
        values = [one[key] for one in said if key in one]
        assert found.get("x-" + key) == min(values, key=str, default=None)
    limits = [one[LIMIT] for one in said if LIMIT in one]
    real = [limit for limit in limits if isinstance(limit, int) and limit >= 0]
    if real:
        assert found["x-" + LIMIT] == min(real)
    else:
        assert ("x-" + LIMIT in found) == bool(limits)
    first = [one[TEXT] for one in (bound, arguments, own) if TEXT in one]
    assert found.get("x-" + TEXT) == (first[0] if first else None)


@given(definitions, definitions)
def test_what_is_in_one_definition_only_stays(
    own: dict[str, object], bound: dict[str, object]
) -> None:
    merged = merge(own, bound)
    assert merged.keys() == own.keys() | bound.keys()
    for first, second in ((own, bound), (bound, own)):
        for key in first.keys() - second.keys():
            assert merged[key] == first[key]


@given(definitions)
def test_a_definition_with_itself_is_itself(one: dict[str, object]) -> None:
    assert merge(one, one) == one
