"""An exchange of another type, with a waiting room."""

from mypy_extensions import i64

from routing.binding import Target
from routing.delayed import DelayedTable
from routing.direct import DirectTable
from routing.routable import Routable
from tests.support.routing import NamedTable


class Delayed(Routable):
    """A message, or a question about one, with a delay."""

    def __init__(self, delay: int, is_message: bool = True) -> None:
        super().__init__([b"k"])
        self.is_message = is_message
        self.delay = delay

    def delay_ms(self) -> i64:
        return self.delay


def table() -> tuple[NamedTable, DelayedTable]:
    delayed = DelayedTable({}, DirectTable({}))
    made = NamedTable(delayed)
    delayed.waiting_room = made.targets["room"] = Target()
    made.add("a", b"k")
    return made, delayed


def test_a_message_with_a_delay_waits_and_goes_nowhere_else() -> None:
    made, _ = table()
    assert made.route(Delayed(1)) == ["room"]


def test_without_a_delay_the_other_type_routes() -> None:
    made, _ = table()
    assert made.route(Delayed(0)) == ["a"]
    assert made.route(Delayed(-5)) == ["a"]


def test_a_question_about_the_way_is_answered_as_if_the_delay_were_over() -> None:
    made, _ = table()
    assert made.route(Delayed(1, is_message=False)) == ["a"]


def test_nothing_waits_without_a_waiting_room() -> None:
    made, delayed = table()
    delayed.waiting_room = None
    assert made.route(Delayed(1)) == ["a"]


def test_bindings_go() -> None:
    made, _ = table()
    binding = made.add("b", b"k")
    assert made.route(Delayed(0)) == ["a", "b"]
    made.table.remove(binding)
    assert made.route(Delayed(0)) == ["a"]
