"""Policy, operator's policy and arguments together."""

import pytest

from amqpd.broker.policies.effective_policy import NO_POLICY, EffectivePolicy, merge
from amqpd.broker.policies.policy import Policy


def policy(definition: dict[str, object], is_operator: bool = False) -> Policy:
    name = "op" if is_operator else "p"
    return Policy(name, {"pattern": "", "definition": definition}, is_operator)


@pytest.mark.parametrize(
    ("own", "operators", "expected"),
    [
        ({"max-length": 5}, {"max-length": 4}, {"max-length": 4}),
        ({"max-length": 3}, {"max-length": 4}, {"max-length": 3}),
        ({"max-length": 3}, {"expires": 4}, {"max-length": 3, "expires": 4}),
        (
            {"overflow": "drop-head"},
            {"overflow": "reject-publish"},
            {"overflow": "reject-publish"},
        ),
        ({"queue-version": 1}, {"queue-version": 2}, {"queue-version": 2}),
        ({"delivery-limit": 5}, {"delivery-limit": -1}, {"delivery-limit": 5}),
        ({"delivery-limit": -1}, {"delivery-limit": 5}, {"delivery-limit": 5}),
        ({"delivery-limit": 9}, {"delivery-limit": 5}, {"delivery-limit": 5}),
        ({}, {}, {}),
    ],
)
def test_two_policies_are_one(
    own: dict[str, object], operators: dict[str, object], expected: dict[str, object]
) -> None:
    assert merge(own, operators) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, {"x-max-length": 4, "x-dead-letter-exchange": "pol"}),
        (
            {"x-max-length": 3, "x-dead-letter-exchange": "arg"},
            {"x-max-length": 3, "x-dead-letter-exchange": "arg"},
        ),
        (
            {"x-max-length": 9, "x-max-priority": 5},
            {"x-max-length": 4, "x-max-priority": 5, "x-dead-letter-exchange": "pol"},
        ),
    ],
)
def test_arguments_hold_before_a_policy_but_for_lesser_numbers(
    arguments: dict[str, object], expected: dict[str, object]
) -> None:
    definition: dict[str, object] = {"max-length": 4, "dead-letter-exchange": "pol"}
    effective = EffectivePolicy(policy(definition), None)
    assert effective.queue_arguments(arguments) == expected


def test_what_an_operator_says_holds_before_arguments() -> None:
    effective = EffectivePolicy(
        policy({"overflow": "reject-publish-dlx"}),
        policy({"overflow": "reject-publish", "max-length": 9}, True),
    )
    table = {"x-overflow": "drop-head", "x-max-length": 5}
    assert effective.queue_arguments(dict(table)) == {
        "x-overflow": "reject-publish",
        "x-max-length": 5,
    }


def test_a_delivery_limit_of_none_gives_way() -> None:
    effective = EffectivePolicy(policy({"delivery-limit": 5}), None)
    found = effective.queue_arguments({"x-delivery-limit": -1})
    assert found == {"x-delivery-limit": 5}


def test_what_is_not_of_queues_does_not_reach_them() -> None:
    definition: dict[str, object] = {"alternate-exchange": "x", "ha-mode": "all"}
    effective = EffectivePolicy(policy(definition), None)
    assert effective.queue_arguments({}) == {}
    assert effective.definition == definition


def test_arguments_are_not_changed() -> None:
    table: dict[str, object] = {"x-max-length": 9}
    EffectivePolicy(policy({"max-length": 1}), None).queue_arguments(table)
    assert table == {"x-max-length": 9}


def test_the_names_are_told() -> None:
    effective = EffectivePolicy(policy({"max-length": 1}), None)
    assert effective.policy_name == "p"
    assert effective.operator_policy_name is None
    effective = EffectivePolicy(None, policy({"max-length": 1}, True))
    assert (effective.policy_name, effective.operator_policy_name) == (None, "op")
    assert (NO_POLICY.policy_name, NO_POLICY.definition) == (None, {})
