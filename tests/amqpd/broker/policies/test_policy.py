"""Policies: what they are for, and which cannot be."""

from typing import Any

import pytest

from amqpd.broker.policies.policy import ParameterInvalid, Policy


def policy(is_operator: bool = False, **fields: object) -> Policy:
    said = {key.replace("_", "-"): value for key, value in fields.items()}
    return Policy(
        "p", {"pattern": "", "definition": {"max-length": 1}, **said}, is_operator
    )


def refusal(**fields: Any) -> str:
    with pytest.raises(ParameterInvalid) as caught:
        policy(**fields)
    return str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "is_found"),
    [("", True), ("^b", False), ("b", True), ("c$", True), (r"^abc\z", True)],
)
def test_the_pattern_is_looked_for_anywhere(pattern: str, is_found: bool) -> None:
    assert policy(pattern=pattern).is_for("classic", "abc") is is_found


@pytest.mark.parametrize(
    ("apply_to", "kinds"),
    [
        ("all", {"classic", "quorum", "stream", "exchanges"}),
        ("queues", {"classic", "quorum", "stream"}),
        ("exchanges", {"exchanges"}),
        ("classic_queues", {"classic"}),
        ("quorum_queues", {"quorum"}),
        ("streams", {"stream"}),
    ],
)
def test_a_policy_is_for_what_it_applies_to(apply_to: str, kinds: set[str]) -> None:
    made = policy(apply_to=apply_to)
    every = ("classic", "quorum", "stream", "exchanges")
    assert {kind for kind in every if made.is_for(kind, "q")} == kinds


def test_who_says_nothing_means_everything_and_an_operator_all_queues() -> None:
    assert policy().apply_to == "all"
    assert policy(is_operator=True).apply_to == "queues"


def test_a_value_makes_the_same_policy_again() -> None:
    made = policy(pattern="^q", priority=7, apply_to="queues", vhost="v", name="n")
    assert made.value() == {
        "pattern": "^q",
        "apply-to": "queues",
        "definition": {"max-length": 1},
        "priority": 7,
    }
    assert Policy("p", made.value(), False).value() == made.value()


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"definition": {}}, "no policy provided"),
        ({"definition": [1]}, "definition should be an object but was [1]"),
        ({"pattern": 5}, "pattern should be a binary but was 5"),
        ({"pattern": None}, "pattern should be a binary but was null"),
        (
            {"priority": "7"},
            'priority should be a number, actually was <<"7">>',
        ),
        ({"priority": True}, "priority should be a number, actually was true"),
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, object], text: str) -> None:
    assert refusal(**fields) == text


def test_every_problem_is_told() -> None:
    lines = refusal(definition={}, apply_to="x", pattern="(", priority="x").split("\n")
    assert [line.split()[0] for line in lines] == [
        "no",
        "apply-to",
        "pattern",
        "priority",
    ]


def test_an_expression_that_does_not_compile_is_refused() -> None:
    assert refusal(pattern="(").startswith(
        "pattern should be regular expression but is invalid: "
    )


def test_what_has_no_meaning_any_more_is_named() -> None:
    made = policy(definition={"ha-mode": "all", "expires": 1, "ha-params": 2})
    assert made.removed_keys() == ["ha-mode", "ha-params"]
