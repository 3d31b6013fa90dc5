"""Lists: filtered, sorted, paged, cut to columns and encoded, in slices.

    objects -> filter by name -> sort by virtual host and name -> page -> facts -> JSON

That is the cheap way: facts are gathered of one page only. A list that is to be sorted
by something else needs the facts of everything first. Values of different kinds are
sorted as Erlang's are: numbers, then true, false and null, then objects, lists, texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeVar, final

from amqpd.http.answer import Answer, encode, json_answer
from amqpd.http.call import Call
from amqpd.http.columns import Columns, Facts, chosen, columns_of
from amqpd.http.pace import Pace, sorted_slowly
from amqpd.http.paging import page_of

T = TypeVar("T")

#: So many objects are looked at before the clock is.
STEP: Final = 16


@final
class Listing(Generic[T]):
    """A list of objects of one kind: what they are called, and what is said of them.

    `key` gives the virtual host (or "") and the name of an object. `text` may know a
    quicker way to the JSON of an object than by its facts.
    """

    def __init__(
        self,
        key: Callable[[T], tuple[str, str]],
        facts: Callable[[T], Facts],
        text: Callable[[T], bytes] | None = None,
    ) -> None:
        self._key = key
        self._facts = facts
        self._text = text

    async def answer(
        self, call: Call, objects: Iterable[T], is_ordered: bool = False
    ) -> Answer:
        """Return the list as the query asks for it, a page or all.

        With `is_ordered` the objects come sorted by virtual host and name.

        Raises:
            HttpError: the query asks for a page that cannot be.
        """
        pace = Pace()
        columns = columns_of(call.query)
        page = page_of(call.query)
        ordered = await self._ordered(call, objects, is_ordered, pace)
        total = len(ordered)
        if page is None:
            return Answer(await self._encoded(ordered, columns, pace))
        wanted = page.name_filter()
        if wanted is not None:
            filtered = []
            for index, one in enumerate(ordered):
                if wanted(self._key(one)[1]):
                    filtered.append(one)
                if not index % STEP:
                    await pace.step()
            ordered = filtered
        frame = page.frame(total, len(ordered))
        start, end = page.bounds(len(ordered))
        items = await self._encoded(ordered[start:end], columns, pace)
        return Answer(encode(frame)[:-1] + b',"items":' + items + b"}")

    async def _ordered(
        self, call: Call, objects: Iterable[T], is_ordered: bool, pace: Pace
    ) -> list[T]:
        sort = call.query.get("sort")
        if not sort and is_ordered:
            ordered = list(objects)
        elif not sort:
            ordered = await sorted_slowly(objects, self._key, pace)
        else:
            parts = [part for part in sort.split(".") if part]
            rows = []
            for one in objects:
                value = _rank(_value_at(self._facts(one), parts))
                rows.append((value, self._key(one), one))
                await pace.step()
            ordered = [row[2] for row in await sorted_slowly(rows, _first_two, pace)]
        if call.flag("sort_reverse"):
            ordered.reverse()
        return ordered

    async def _encoded(
        self, objects: list[T], columns: Columns | None, pace: Pace
    ) -> bytes:
        pieces = []
        for index, one in enumerate(objects):
            if columns is None and self._text is not None:
                pieces.append(self._text(one))
            else:
                pieces.append(encode(chosen(self._facts(one), columns)))
            if not index % STEP:
                await pace.step()
        return b"[" + b",".join(pieces) + b"]"


def single(call: Call, facts: Facts) -> Answer:
    """Return one object, cut to the columns that the query asks for."""
    return json_answer(chosen(facts, columns_of(call.query)))


def _first_two(row: tuple[Any, Any, object]) -> tuple[Any, Any]:
    return row[0], row[1]


def _value_at(facts: Facts, parts: list[str]) -> Any:
    value: Any = facts
    for part in parts:
        value = value.get(part, 0) if isinstance(value, dict) else 0
    return value


def _rank(value: Any) -> tuple[int, Any]:
    """Return what makes values of any kind comparable."""
    if value is None or isinstance(value, bool):
        return 1, {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return 0, value
    if isinstance(value, str):
        return 4, value
    return (2, str(value)) if isinstance(value, dict) else (3, str(value))
