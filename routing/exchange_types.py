"""Exchange type names and the tables behind them."""

from typing import Final

from routing.binding import BindingTable
from routing.consistent_hash import ConsistentHashTable
from routing.deduplication import (
    DEDUPLICATION,
    DeduplicatingTable,
    Ledger,
    check_deduplication,
    is_deduplicating,
)
from routing.delayed import DELAYED, DelayedTable, delayed_type
from routing.dice import Dice
from routing.direct import DirectTable
from routing.errors import UnknownExchangeType
from routing.fanout import FanoutTable
from routing.headers import HeadersTable
from routing.modulus_hash import ModulusHashTable
from routing.random_choice import LOCAL_RANDOM, RANDOM, RandomTable
from routing.recent_history import RecentHistoryTable
from routing.topic import TopicTable

#: A new type is one more line here.
EXCHANGE_TYPES: Final[dict[str, type[BindingTable]]] = {
    "direct": DirectTable,
    # What it lets through goes to all its bindings, as with RabbitMQ's plugin.
    DEDUPLICATION: FanoutTable,
    "fanout": FanoutTable,
    "headers": HeadersTable,
    "topic": TopicTable,
    "x-consistent-hash": ConsistentHashTable,
    "x-modulus-hash": ModulusHashTable,
    "x-recent-history": RecentHistoryTable,
}

#: These also want to throw dice.
RANDOM_TYPES: Final = (RANDOM, LOCAL_RANDOM)


def is_exchange_type(type_name: str) -> bool:
    """Say whether there is a type of this name."""
    return (
        type_name in EXCHANGE_TYPES or type_name in RANDOM_TYPES or type_name == DELAYED
    )


def new_table(
    type_name: str, arguments: dict[str, object], dice: Dice, ledger: Ledger
) -> BindingTable:
    """Return an empty table for an exchange of this type, declared like that.

    Raises:
        UnknownExchangeType: no such type.
        ArgumentsInvalid: the type cannot work with the arguments.
    """
    table = _table_of_type(type_name, arguments, dice)
    routing_type = delayed_type(arguments) if type_name == DELAYED else type_name
    if not is_deduplicating(routing_type, arguments):
        return table
    check_deduplication(routing_type, arguments)
    return DeduplicatingTable(arguments, table, ledger)


def _table_of_type(
    type_name: str, arguments: dict[str, object], dice: Dice
) -> BindingTable:
    if type_name in RANDOM_TYPES:
        return RandomTable(arguments, dice, type_name == LOCAL_RANDOM)
    if type_name == DELAYED:
        inner = _table_of_type(delayed_type(arguments), arguments, dice)
        return DelayedTable(arguments, inner)
    table_class = EXCHANGE_TYPES.get(type_name)
    if table_class is None:
        raise UnknownExchangeType(type_name)
    return table_class(arguments)


def check_arguments(type_name: str, arguments: dict[str, object]) -> None:
    """Check that an exchange of this type can be declared with these arguments.

    Raises:
        UnknownExchangeType: no such type.
        ArgumentsInvalid: the type cannot work with the arguments.
    """
    new_table(type_name, arguments, Dice(0), Ledger())
