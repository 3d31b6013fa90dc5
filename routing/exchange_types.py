"""Exchange type names and the tables behind them."""

from typing import Final

from routing.binding import BindingTable
from routing.direct import DirectTable
from routing.errors import UnknownExchangeType
from routing.fanout import FanoutTable
from routing.headers import HeadersTable
from routing.topic import TopicTable

#: A new type is one more line here.
EXCHANGE_TYPES: Final[dict[str, type[BindingTable]]] = {
    "direct": DirectTable,
    "fanout": FanoutTable,
    "headers": HeadersTable,
    "topic": TopicTable,
}


def new_table(type_name: str, arguments: dict[str, object]) -> BindingTable:
    """Return an empty table for an exchange of this type, declared like that.

    Raises:
        UnknownExchangeType: no such type.
        BindingInvalid: the type cannot work with the arguments.
    """
    table_class = EXCHANGE_TYPES.get(type_name)
    if table_class is None:
        raise UnknownExchangeType(type_name)
    return table_class(arguments)
