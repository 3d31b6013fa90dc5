"""Exchange types by name."""

import pytest

from routing.direct import DirectTable
from routing.errors import UnknownExchangeType
from routing.exchange_types import new_table
from routing.fanout import FanoutTable
from routing.headers import HeadersTable
from routing.topic import TopicTable


def test_every_type_has_its_table() -> None:
    assert isinstance(new_table("direct", {}), DirectTable)
    assert isinstance(new_table("fanout", {}), FanoutTable)
    assert isinstance(new_table("headers", {}), HeadersTable)
    assert isinstance(new_table("topic", {}), TopicTable)


def test_an_unknown_type_is_named() -> None:
    with pytest.raises(UnknownExchangeType, match="unknown exchange type 'x-odd'"):
        new_table("x-odd", {})


def test_only_headers_exchanges_ask_the_message() -> None:
    asking = [
        name
        for name in ("direct", "fanout", "headers", "topic")
        if new_table(name, {}).asks_message
    ]
    assert asking == ["headers"]
