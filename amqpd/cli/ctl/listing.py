"""Lists: which columns there are, what they are called, and where the API has them.

A column that the API calls otherwise, or keeps inside of something, is written
"column=path.to.field". Only what is shown is asked for, so that a list of ten thousand
queues is small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from amqpd.cli.ctl.errors import EXIT_USAGE, Failure, no_such_vhost
from amqpd.cli.ctl.table import Table
from amqpd.cli.ctl.verb import Call


class Listing:
    """One kind of object; `fields` says where the API has each column."""

    def __init__(
        self, path: str, default: str, columns: str, is_per_vhost: bool = True
    ) -> None:
        pairs = (word.partition("=") for word in columns.split())
        self.fields = {column: field or column for column, _, field in pairs}
        self.path = path
        self.default = default.split()
        self.is_per_vhost = is_per_vhost


def listed(call: Call, listing: Listing) -> Table:
    """Return the columns that are asked for of every object.

    Raises:
        Failure: there is no such column, or no such virtual host.
    """
    columns = chosen(call.said.column, listing)
    fields = {column: listing.fields[column] for column in columns}
    names = [listing.path, *([call.vhost] if listing.is_per_vhost else [])]
    query = {"columns": ",".join(dict.fromkeys(fields.values()))}
    missing = no_such_vhost(call.vhost)
    found = call.api.get(*names, query=query, missing=missing)
    return Table(columns, [_row(fields, item) for item in found])


def chosen(words: Iterable[str], listing: Listing) -> list[str]:
    """Return the columns that are meant; those of `listing.default` if none is said."""
    asked = [name for word in words for name in word.split(",") if name]
    unknown = [name for name in asked if name not in listing.fields]
    if unknown:
        text = f"Info key(s) {', '.join(unknown)} are not supported"
        raise Failure(text, EXIT_USAGE, f"columns: {' '.join(listing.fields)}")
    return asked or listing.default


def _row(fields: Mapping[str, str], item: object) -> dict[str, object]:
    return {column: field_of(item, path) for column, path in fields.items()}


def field_of(item: object, path: str) -> object:
    """Return what an object has at "path.to.field", None if it has nothing there."""
    for name in path.split("."):
        if not isinstance(item, Mapping):
            return None
        item = item.get(name)
    return item
