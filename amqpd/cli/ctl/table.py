"""What verbs answer, and how it is written: for people, for programs, for scripts.

    pretty_table   drawn by rich; what amqpctl shows on a terminal
    table          a line each, columns divided by tabs; what `rabbitmqctl` prints
    csv, json      for programs

A verb hands over rows of JSON values and knows nothing of this.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, TextIO

FORMATS: Final = ("table", "pretty_table", "csv", "json")
_UNPRINTABLE: Final = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r"})

#: Columns that hold a table of AMQP, which `rabbitmqctl` shows in Erlang's notation.
_ARGUMENTS: Final = ("arguments", "client_properties")

Row = Mapping[str, object]


class Table(NamedTuple):
    """Rows with the same columns."""

    columns: Sequence[str]
    rows: Sequence[Row]


class Sections(NamedTuple):
    """Facts in groups, and the object that programs get of them."""

    groups: Sequence[tuple[str, Sequence[str]]]
    value: object


class Document(NamedTuple):
    """A JSON value that is itself the answer."""

    value: object


#: A text is a sentence; None is success and says nothing.
Answer = Table | Sections | Document | str | None


def write(
    answer: Answer, formatter: str, has_headers: bool, out: TextIO, is_erlang: bool
) -> None:
    """Write an answer; `is_erlang` is for scripts that read what `rabbitmqctl` says."""
    if formatter == "json":
        _write_json(answer, out)
    elif isinstance(answer, Table):
        if formatter == "csv":
            _write_csv(answer, has_headers, out)
        elif formatter == "pretty_table":
            _draw(answer, out)
        else:
            _write_lines(answer, has_headers, out, is_erlang)
    elif isinstance(answer, Sections):
        out.write(_sections_text(answer))
    elif isinstance(answer, Document):
        out.write(_compact(answer.value) + "\n")
    elif answer is not None:
        out.write(answer + "\n")


def _write_json(answer: Answer, out: TextIO) -> None:
    if isinstance(answer, Table):
        # A line each: greppable, and what RabbitMQ's tool does.
        lines = [
            _compact({column: row.get(column) for column in answer.columns})
            for row in answer.rows
        ]
        out.write("[\n" + "\n,".join(lines) + ("\n]\n" if lines else "]\n"))
    elif isinstance(answer, Sections | Document):
        out.write(as_json(answer.value, 2) + "\n")
    elif answer is not None:
        out.write(_compact({"message": answer}) + "\n")
    else:
        out.write(_compact({"result": "ok"}) + "\n")


def _write_lines(table: Table, has_headers: bool, out: TextIO, is_erlang: bool) -> None:
    if not table.rows:
        return
    if has_headers:
        out.write("\t".join(table.columns) + "\n")
    for row in table.rows:
        cells = [
            erlang_arguments(value)
            if is_erlang and column in _ARGUMENTS and isinstance(value, dict)
            else cell(value)
            for column in table.columns
            for value in [row.get(column)]
        ]
        out.write("\t".join(each.translate(_UNPRINTABLE) for each in cells) + "\n")


def _write_csv(table: Table, has_headers: bool, out: TextIO) -> None:
    import csv

    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    if has_headers:
        writer.writerow(table.columns)
    for row in table.rows:
        writer.writerow([cell(row.get(column)) for column in table.columns])


def _draw(table: Table, out: TextIO) -> None:
    # Only here: it takes as long as all other imports together.
    from rich import box
    from rich.console import Console
    from rich.table import Table as Drawing
    from rich.text import Text

    drawing = Drawing(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in table.columns:
        is_number = bool(table.rows) and all(
            isinstance(row.get(column), int | float | None) for row in table.rows
        )
        side: Literal["right", "left"] = "right" if is_number else "left"
        # A long name goes on in the next line: nothing is left out.
        drawing.add_column(column, justify=side, overflow="fold")
    for row in table.rows:
        drawing.add_row(*(Text(cell(row.get(name))) for name in table.columns))
    Console(file=out).print(drawing)


def _sections_text(answer: Sections) -> str:
    lines = []
    for title, facts in answer.groups:
        lines += [title, "", *facts, ""]
    return "\n".join(lines)


def cell(value: object) -> str:
    """Return the text of a JSON value in a column."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "[" + ", ".join(cell(item) for item in value) + "]"
    return _compact(value)


def erlang_arguments(arguments: Mapping[str, object]) -> str:
    """Return a table as `rabbitmqctl` shows one: [{"x-max-length",10}]."""
    pairs = (
        f'{{"{key}",{_erlang(value)}}}' for key, value in sorted(arguments.items())
    )
    return "[" + ",".join(pairs) + "]"


def _erlang(value: object) -> str:
    if isinstance(value, dict):
        return erlang_arguments(value)
    if isinstance(value, list):
        return "[" + ",".join(_erlang(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _compact(value: object) -> str:
    return as_json(value, None)


def as_json(value: object, indent: int | None) -> str:
    """Return JSON for people, in which octets that are no UTF-8 stay escaped."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, indent=indent, separators=separators, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode()
