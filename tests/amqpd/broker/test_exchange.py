"""An exchange as declared, and the rules about names."""

import pytest

from amqpd.broker.errors import AccessRefused, PreconditionFailed
from amqpd.broker.exchange import (
    Exchange,
    check_not_default,
    check_not_reserved,
    check_type,
    check_type_arguments,
    no_exchange,
    predeclared,
)
from amqpd.wire.tables import Table
from tests.support.control_plane import arguments


def exchange(table: Table | None = None, durable: bool = False) -> Exchange:
    """An exchange x."""
    return Exchange("x", "direct", durable, False, False, arguments(table))


def test_the_alternate_is_an_argument() -> None:
    assert exchange({"alternate-exchange": "y"}).alternate == "y"
    assert exchange({"alternate-exchange": 5}).alternate is None
    assert exchange().alternate is None


def test_an_exchange_is_the_same_as_itself() -> None:
    exchange({"a": 1}).check_same(exchange({"a": 2}), "/")


def test_a_difference_names_the_exchange_and_the_virtual_host() -> None:
    with pytest.raises(PreconditionFailed) as caught:
        exchange(durable=True).check_same(exchange(), "v")
    assert caught.value.text == (
        "inequivalent arg 'durable' for exchange 'x' in vhost 'v': "
        "received 'false' but current is 'true'"
    )


def test_each_virtual_host_gets_exchanges_of_its_own() -> None:
    names = [one.name for one in predeclared()]
    assert len(names) == len(set(names)) == 6
    assert predeclared()[0] is not predeclared()[0]


@pytest.mark.parametrize(
    "type_name", ["direct", "fanout", "topic", "headers", "x-consistent-hash"]
)
def test_the_types_are_known(type_name: str) -> None:
    check_type(type_name)


@pytest.mark.parametrize("type_name", ["", "Direct", "x-delayed"])
def test_other_types_are_not(type_name: str) -> None:
    with pytest.raises(PreconditionFailed, match="unknown exchange type"):
        check_type(type_name)


def test_only_the_empty_name_is_the_default_exchange() -> None:
    check_not_default("amq.default")
    with pytest.raises(AccessRefused):
        check_not_default("")


def test_only_the_prefix_with_its_dot_is_reserved() -> None:
    check_not_reserved("queue", "amqp")
    check_not_reserved("queue", "AMQ.x")
    with pytest.raises(AccessRefused, match=r"exchange name 'amq\.x' contains"):
        check_not_reserved("exchange", "amq.x")


def test_what_is_missing_is_named() -> None:
    assert no_exchange("x", "v").text == "no exchange 'x' in vhost 'v'"


def test_arguments_of_a_type_are_checked() -> None:
    made = exchange({"hash-property": "app_id"})
    check_type_arguments(made)
    made.type_name = "x-consistent-hash"
    with pytest.raises(PreconditionFailed) as caught:
        check_type_arguments(made)
    assert caught.value.text == "Unsupported property: app_id"
