"""`columns=name,message_stats.publish`: only what was asked for, of what there is.

A column with dots goes into objects, and into the items of a list of them. What is not
there is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Facts = dict[str, Any]

#: Name -> the columns below it; None: all of it.
Columns = dict[str, "Columns | None"]


def columns_of(query: Mapping[str, str]) -> Columns | None:
    """Return the columns that a query asks for; None: all."""
    said = query.get("columns")
    if said is None:
        return None
    columns: Columns = {}
    for column in said.split(","):
        parts = [part for part in column.split(".") if part]
        if parts:
            _add(columns, parts)
    return columns


def chosen(content: Any, columns: Columns | None) -> Any:
    """Return what is asked for of an object, or of each object in a list."""
    if columns is None:
        return content
    if isinstance(content, dict):
        return {
            name: chosen(content[name], below)
            for name, below in columns.items()
            if name in content
        }
    if isinstance(content, list):
        return [chosen(item, columns) for item in content]
    return content


def _add(columns: Columns, parts: list[str]) -> None:
    name = parts[0]
    if len(parts) == 1:
        columns[name] = None
        return
    below = columns.setdefault(name, {})
    if below is not None:
        _add(below, parts[1:])
