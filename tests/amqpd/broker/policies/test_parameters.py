"""Values by virtual host, component and name."""

from amqpd.broker.policies.parameters import GLOBAL, Parameter, ParameterTable


def test_a_value_is_put_replaced_and_removed() -> None:
    table = ParameterTable()
    table.put(Parameter("v", "c", "n", 1))
    table.put(Parameter("v", "c", "n", 2))
    found = table.get("v", "c", "n")
    assert found is not None
    assert (found.value, len(table.entries())) == (2, 1)
    table.remove("v", "c", "n")
    table.remove("v", "c", "n")
    assert table.get("v", "c", "n") is None


def test_global_ones_are_of_no_virtual_host() -> None:
    table = ParameterTable()
    table.put(Parameter("", GLOBAL, "b", 1))
    table.put(Parameter("", GLOBAL, "a", 1))
    table.put(Parameter("", "user-limits", "joe", {}))
    table.put(Parameter("v", "c", "n", 1))
    assert [one.name for one in table.global_parameters()] == ["a", "b"]
    assert [one.name for one in table.of_vhost("v")] == ["n"]
