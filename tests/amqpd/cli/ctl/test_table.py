"""How answers are written, each format for whom it is."""

from __future__ import annotations

import csv
import io
import json

import pytest

from amqpd.cli.ctl.table import Answer, Document, Sections, Table, cell, write

TABLE = Table(
    ("name", "messages", "arguments"),
    [
        {"name": "a", "messages": 1, "arguments": {"x-max-length": 10}},
        {"name": "b\tc\n", "messages": None, "arguments": {}},
    ],
)
EMPTY = Table(("name",), [])


def written(
    answer: Answer,
    formatter: str,
    has_headers: bool = True,
    is_rabbitmqctl: bool = False,
) -> str:
    out = io.StringIO()
    write(answer, formatter, has_headers, out, is_rabbitmqctl)
    return out.getvalue()


def test_a_line_is_a_row_whatever_the_cells_hold() -> None:
    assert written(TABLE, "table").splitlines() == [
        "name\tmessages\targuments",
        'a\t1\t{"x-max-length":10}',
        "b\\tc\\n\t\t{}",
    ]


def test_scripts_can_do_without_the_names_of_columns() -> None:
    assert written(TABLE, "table", has_headers=False).startswith("a\t1")


def test_rabbitmqctl_shows_arguments_as_erlang_does() -> None:
    lines = written(TABLE, "table", is_rabbitmqctl=True).splitlines()
    assert lines[1] == 'a\t1\t[{"x-max-length",10}]'
    assert lines[2].endswith("\t[]")


def test_a_list_of_nothing_has_no_names_of_columns_either() -> None:
    assert written(EMPTY, "table") == ""


def test_json_has_the_columns_and_nothing_else() -> None:
    rows = json.loads(written(Table(("name", "messages"), TABLE.rows), "json"))
    assert rows == [{"name": "a", "messages": 1}, {"name": "b\tc\n", "messages": None}]


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        (EMPTY, []),
        (None, {"result": "ok"}),
        ("Ping succeeded", {"message": "Ping succeeded"}),
        (Document({"a": 1}), {"a": 1}),
        (Sections((("Title", ["a: 1"]),), {"a": 1}), {"a": 1}),
    ],
)
def test_every_answer_is_json_for_programs(answer: Answer, value: object) -> None:
    assert json.loads(written(answer, "json")) == value


def test_csv_quotes_so_that_a_reader_gets_back_what_was_there() -> None:
    rows = list(csv.reader(io.StringIO(written(TABLE, "csv"))))
    assert rows[0] == ["name", "messages", "arguments"]
    assert rows[2] == ["b\tc\n", "", "{}"]


def test_a_drawn_table_has_every_cell_and_no_markup_of_its_own() -> None:
    table = Table(("name",), [{"name": "[red]q[/red]"}])
    drawn = written(table, "pretty_table")
    assert "name" in drawn
    assert "[red]q[/red]" in drawn


def test_a_drawn_table_leaves_nothing_out_however_narrow_it_is() -> None:
    name = "-".join(str(number) for number in range(200))
    drawn = written(Table(("name",), [{"name": name}]), "pretty_table")
    assert name in drawn.replace("\n", "").replace(" ", "")


def test_octets_that_are_no_text_stay_escaped_in_json() -> None:
    out = written(Table(("name",), [{"name": "\udcff\u00e9"}]), "json")
    assert out.encode() == b'[\n{"name":"\\udcff\xc3\xa9"}\n]\n'


def test_sections_have_their_titles() -> None:
    assert written(Sections((("Title", ["a: 1"]),), {}), "table") == "Title\n\na: 1\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (None, ""),
        (1.5, "1.5"),
        (["a", "b"], "[a, b]"),
        ([], "[]"),
        ({"a": [1]}, '{"a":[1]}'),
        ("é", "é"),
    ],
)
def test_a_value_is_written_as_people_read_it(value: object, text: str) -> None:
    assert cell(value) == text


def test_tables_within_tables_are_shown_as_erlang_does() -> None:
    rows = [{"arguments": {"a": {"b": [1, "x"]}}}]
    text = written(Table(("arguments",), rows), "table", False, is_rabbitmqctl=True)
    assert text == '[{"a",[{"b",[1,"x"]}]}]\n'
