"""Which policy is in force."""

from amqpd.broker.policies.policy import Policy
from amqpd.broker.policies.policy_table import PolicyTable


def policy(
    name: str, pattern: str = "", priority: float = 0, is_operator: bool = False
) -> Policy:
    fields: dict[str, object] = {
        "pattern": pattern,
        "priority": priority,
        "definition": {"max-length": 1},
    }
    return Policy(name, fields, is_operator)


def name_for(table: PolicyTable, queue: str) -> str | None:
    return table.for_queue("classic", queue).policy_name


def test_the_highest_priority_among_those_that_match_is_in_force() -> None:
    table = PolicyTable()
    table.put(policy("low", priority=1))
    table.put(policy("high", priority=1.5))
    table.put(policy("other", pattern="^x", priority=9))
    assert name_for(table, "q") == "high"
    assert name_for(table, "x") == "other"


def test_of_equal_ones_the_first_by_name_is_in_force() -> None:
    table = PolicyTable()
    table.put(policy("b"))
    table.put(policy("a"))
    assert name_for(table, "q") == "a"


def test_operators_policies_stand_beside_the_others() -> None:
    table = PolicyTable()
    table.put(policy("same"))
    table.put(policy("same", is_operator=True))
    effective = table.for_queue("classic", "q")
    assert effective.policy_name == effective.operator_policy_name == "same"
    table.remove("same", True)
    assert table.for_queue("classic", "q").operator_policy_name is None
    assert name_for(table, "q") == "same"


def test_exchanges_have_no_operators_policy() -> None:
    table = PolicyTable()
    table.put(policy("op", is_operator=True))
    assert table.for_exchange("x") is None
    table.put(policy("p"))
    found = table.for_exchange("x")
    assert found is not None
    assert found.name == "p"


def test_a_policy_is_replaced_and_removed() -> None:
    table = PolicyTable()
    table.put(policy("p", pattern="^x"))
    table.put(policy("p"))
    assert name_for(table, "q") == "p"
    assert [one.pattern for one in table.entries(False)] == [""]
    table.remove("p", False)
    table.remove("p", False)
    assert (table.get("p", False), name_for(table, "q")) == (None, None)
