"""Exchanges, bindings, and the walk through them."""

from collections import Counter
from collections.abc import Callable

import pytest

from routing.binding import Binding
from routing.errors import (
    BindingInvalid,
    UnknownDestination,
    UnknownExchangeType,
    UnknownSource,
)
from routing.resolution import Resolution
from routing.routable import Routable
from routing.router import Router
from tests.support.routing import Sent


def binding(source: str, destination: str, key: bytes = b"k") -> Binding:
    """Return a binding; a destination in capitals is an exchange."""
    return Binding(source, destination, destination.isupper(), key, {}, b"")


def router(*bound: tuple[str, str]) -> Router[str]:
    """Return a router with direct exchanges A to D, queues p to s and bindings."""
    made = Router[str]()
    for name in "ABCD":
        made.add_exchange(name, "direct", None, {})
    for name in "pqrs":
        made.add_destination(name, f"queue {name}")
    for source, destination in bound:
        assert made.bind(binding(source, destination))
    return made


def resolve(made: Router[str], exchange: str = "A") -> Resolution[str]:
    return made.resolve(exchange, Routable([b"k"]))


def found(made: Router[str], exchange: str = "A") -> str:
    """Return where the key k leads, as names of queues."""
    return "".join(name[-1] for name in resolve(made, exchange).destinations)


# -- resolving


def test_an_exchange_without_bindings_leads_nowhere() -> None:
    assert found(router()) == ""


def test_destinations_come_in_the_order_of_the_first_match() -> None:
    assert found(router(("A", "r"), ("A", "p"), ("A", "q"))) == "rpq"


def test_an_unknown_exchange_cannot_be_resolved() -> None:
    with pytest.raises(UnknownSource, match="no exchange 'X'"):
        resolve(router(), "X")


def test_exchanges_lead_on_to_exchanges() -> None:
    assert found(router(("A", "B"), ("B", "C"), ("C", "q"))) == "q"


def test_the_walk_is_breadth_first() -> None:
    made = router(("A", "B"), ("B", "q"), ("A", "p"))
    assert found(made) == "pq"


def test_a_destination_reached_twice_is_found_once() -> None:
    made = router(("A", "B"), ("A", "C"), ("B", "q"), ("C", "q"), ("A", "q"))
    assert found(made) == "q"


def test_a_cycle_of_exchanges_ends() -> None:
    made = router(("A", "B"), ("B", "A"), ("B", "B"), ("B", "q"))
    assert found(made) == "q"


def test_every_key_is_used() -> None:
    made = router()
    made.bind(binding("A", "p", b"1"))
    made.bind(binding("A", "q", b"2"))
    assert made.resolve("A", Routable([b"2", b"3"])).destinations == ["queue q"]
    assert made.resolve("A", Routable([b"1", b"2"])).destinations == [
        "queue p",
        "queue q",
    ]


def test_headers_reach_headers_exchanges_and_none_are_no_headers() -> None:
    made = router()
    made.add_exchange("H", "headers", None, {})
    made.bind(Binding("A", "H", True, b"k", {}, b""))
    made.bind(Binding("H", "q", False, b"", {"a": 1}, b"\x01aI\x00\x00\x00\x01"))
    assert made.resolve("A", Sent(b"k", headers={"a": 1})).destinations == ["queue q"]
    assert made.resolve("A", Routable([b"k"])).destinations == []


def test_a_walk_that_crosses_a_headers_exchange_asks_the_message() -> None:
    made = router(("A", "B"))
    made.add_exchange("H", "headers", None, {})
    made.bind(Binding("B", "H", True, b"k", {}, b""))
    assert resolve(made).asks_message
    assert resolve(made).asks_only_headers
    other = made.resolve("A", Routable([b"other"]))
    assert not other.asks_message
    assert not other.asks_only_headers


def test_a_walk_that_crosses_dice_as_well_asks_more_than_headers() -> None:
    made = router()
    made.add_exchange("H", "headers", None, {})
    made.bind(Binding("A", "H", True, b"k", {}, b""))
    made.add_exchange("R", "x-random", None, {})
    made.bind(Binding("H", "R", True, b"", {}, b""))
    for found in (made.resolve("H", Routable([b"k"])), resolve(made)):
        assert found.asks_message
        assert not found.asks_only_headers


# -- alternate exchanges


def test_the_alternate_gets_what_has_no_match() -> None:
    made = router(("B", "q"))
    made.set_alternate("A", "B")
    assert found(made) == "q"


def test_the_alternate_gets_nothing_else() -> None:
    made = router(("A", "p"), ("B", "q"))
    made.set_alternate("A", "B")
    assert found(made) == "p"


def test_an_exchange_that_was_bound_and_found_nothing_is_a_match() -> None:
    made = router(("A", "C"), ("B", "q"))
    made.set_alternate("A", "B")
    assert found(made) == ""


def test_alternates_of_exchanges_on_the_way_are_used() -> None:
    made = router(("A", "B"), ("C", "q"))
    made.set_alternate("B", "C")
    assert found(made) == "q"


def test_an_exchange_is_added_with_its_alternate() -> None:
    made = router(("B", "q"))
    made.add_exchange("E", "fanout", "B", {})
    assert found(made, "E") == "q"


def test_a_cycle_of_alternates_ends() -> None:
    made = router()
    made.set_alternate("A", "B")
    made.set_alternate("B", "A")
    assert found(made) == ""


def test_a_missing_alternate_is_passed_over() -> None:
    made = router()
    made.add_exchange("E", "fanout", "missing", {})
    assert found(made, "E") == ""


def test_the_default_exchange_as_alternate_leads_to_the_queue_of_that_name() -> None:
    made = router()
    made.set_alternate("A", "")
    assert made.resolve("A", Routable([b"q"])).destinations == ["queue q"]
    assert made.resolve("A", Routable([b"nobody"])).destinations == []


# -- changing


def test_an_unknown_exchange_type_is_refused() -> None:
    made = router()
    with pytest.raises(UnknownExchangeType):
        made.add_exchange("X", "odd", "B", {})
    with pytest.raises(UnknownSource):
        resolve(made, "X")


@pytest.mark.parametrize("name", ["A", ""])
def test_an_exchange_that_is_there_cannot_be_added(name: str) -> None:
    with pytest.raises(AssertionError):
        router().add_exchange(name, "direct", None, {})


def test_an_unknown_exchange_has_no_alternate() -> None:
    with pytest.raises(UnknownSource):
        router().set_alternate("X", "A")


def test_a_binding_is_added_once() -> None:
    made = router(("A", "q"))
    assert not made.bind(binding("A", "q"))
    assert made.bind(binding("A", "q", b"other"))
    assert found(made) == "q"


@pytest.mark.parametrize(
    ("source", "destination", "error"),
    [
        ("X", "q", UnknownSource),
        ("A", "x", UnknownDestination),
        ("A", "X", UnknownDestination),
    ],
)
def test_a_binding_needs_both_ends(
    source: str, destination: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        router().bind(binding(source, destination))


def test_a_binding_that_its_exchange_refuses_is_not_there() -> None:
    made = router()
    made.add_exchange("H", "headers", None, {})
    wrong = Binding("H", "q", False, b"", {"x-match": "odd"}, b"\x07x-match...")
    with pytest.raises(BindingInvalid):
        made.bind(wrong)
    assert list(made.bindings()) == []
    assert not made.unbind(wrong)


def test_a_removed_binding_leads_nowhere() -> None:
    made = router(("A", "q"), ("A", "p"))
    assert made.unbind(binding("A", "q"))
    assert found(made) == "p"
    assert not made.unbind(binding("A", "q"))
    assert not made.unbind(binding("X", "q"))


def test_a_binding_is_there_from_bind_to_unbind() -> None:
    made = router(("A", "q"))
    assert made.has_binding(binding("A", "q"))
    assert not made.has_binding(binding("A", "p"))
    assert not made.has_binding(binding("X", "q"))
    made.unbind(binding("A", "q"))
    assert not made.has_binding(binding("A", "q"))


def test_bindings_are_listed_by_either_end() -> None:
    made = router(("A", "q"), ("B", "q"), ("A", "B"))
    assert list(made.bindings_from("A")) == [binding("A", "q"), binding("A", "B")]
    assert list(made.bindings_to("q", False)) == [
        binding("A", "q"),
        binding("B", "q"),
    ]
    assert list(made.bindings_to("B", True)) == [binding("A", "B")]
    assert len(list(made.bindings())) == 3


def test_nothing_is_bound_to_or_from_what_is_not_there() -> None:
    made = router()
    assert list(made.bindings_from("X")) == []
    assert list(made.bindings_to("x", False)) == []
    assert list(made.bindings_to("q", True)) == []
    assert not made.has_bindings_from("X")


def test_an_exchange_knows_whether_it_has_bindings() -> None:
    made = router(("A", "B"))
    assert made.has_bindings_from("A")
    assert not made.has_bindings_from("B")


def test_a_removed_exchange_takes_its_bindings_with_it() -> None:
    made = router(("A", "B"), ("B", "B"), ("B", "q"), ("B", "A"), ("A", "p"))
    removed = made.remove_exchange("B")
    assert sorted((each.source, each.destination) for each in removed) == [
        ("A", "B"),
        ("B", "A"),
        ("B", "B"),
        ("B", "q"),
    ]
    assert list(made.bindings()) == [binding("A", "p")]
    assert list(made.bindings_to("q", False)) == []
    assert list(made.bindings_to("A", True)) == []
    assert found(made) == "p"
    with pytest.raises(UnknownSource):
        resolve(made, "B")


def test_a_removed_destination_takes_its_bindings_with_it() -> None:
    made = router(("A", "q"), ("B", "q"), ("A", "p"))
    assert made.remove_destination("q") == [binding("A", "q"), binding("B", "q")]
    assert list(made.bindings()) == [binding("A", "p")]
    with pytest.raises(UnknownDestination):
        made.bind(binding("A", "q"))


def test_removing_what_is_not_there_removes_nothing() -> None:
    made = router(("A", "q"))
    assert made.remove_exchange("X") == []
    assert made.remove_destination("x") == []
    assert found(made) == "q"


def test_a_destination_added_again_is_replaced_behind_its_bindings() -> None:
    made = router(("A", "q"))
    made.add_destination("q", "new q")
    assert resolve(made).destinations == ["new q"]


# -- how long a resolution holds


def test_a_resolution_holds_while_only_other_exchanges_change() -> None:
    made = router(("A", "B"), ("B", "q"))
    resolution = resolve(made)
    made.bind(binding("C", "q"))
    made.unbind(binding("C", "q"))
    made.set_alternate("C", "D")
    made.add_exchange("E", "topic", None, {})
    made.remove_exchange("E")
    made.remove_exchange("D")
    made.add_destination("t", "queue t")
    made.remove_destination("t")
    assert resolution.is_current()


def test_a_resolution_ends_with_a_binding_of_an_exchange_it_crossed() -> None:
    made = router(("A", "B"), ("B", "q"))
    first = resolve(made)
    made.bind(binding("B", "p"))
    assert not first.is_current()
    second = resolve(made)
    made.unbind(binding("A", "B"))
    assert not second.is_current()


def test_a_resolution_ends_with_an_exchange_it_crossed() -> None:
    made = router(("A", "B"), ("B", "q"))
    from_a, from_b = resolve(made), resolve(made, "B")
    made.remove_exchange("B")
    assert not from_a.is_current()
    assert not from_b.is_current()
    made.add_exchange("B", "direct", None, {})
    assert not from_b.is_current()


def test_a_resolution_ends_when_its_destination_goes_or_is_replaced() -> None:
    made = router(("A", "q"), ("B", "p"))
    from_a, from_b = resolve(made), resolve(made, "B")
    made.remove_destination("q")
    made.add_destination("p", "new p")
    assert not from_a.is_current()
    assert not from_b.is_current()


def test_a_resolution_ends_when_a_missing_alternate_appears_or_goes() -> None:
    made = router()
    made.set_alternate("A", "E")
    missing = resolve(made)
    made.add_exchange("E", "fanout", None, {})
    assert not missing.is_current()
    there = resolve(made)
    made.remove_exchange("E")
    assert not there.is_current()


def test_a_resolution_ends_when_its_exchange_gets_another_alternate() -> None:
    made = router()
    made.set_alternate("A", "B")
    made.set_alternate("C", "B")
    first = resolve(made)
    made.set_alternate("A", "C")
    assert not first.is_current()
    second = resolve(made)
    made.set_alternate("A", None)
    assert not second.is_current()


def test_only_a_resolution_by_the_default_exchange_ends_with_any_new_queue() -> None:
    made = router(("B", "q"))
    made.set_alternate("A", "")
    by_default, bound = resolve(made), resolve(made, "B")
    made.add_destination("k", "queue k")
    assert not by_default.is_current()
    assert bound.is_current()
    assert resolve(made).destinations == ["queue k"]


def bind_more(made: Router[str]) -> None:
    made.bind(binding("B", "p"))


def unbind(made: Router[str]) -> None:
    made.unbind(binding("B", "q"))


def replace_destination(made: Router[str]) -> None:
    made.add_destination("q", "new q")


def add_to_the_default_exchange(made: Router[str]) -> None:
    made.add_destination("k", "queue k")


def remove_from_the_default_exchange(made: Router[str]) -> None:
    made.remove_destination("s")


def add_the_missing_alternate(made: Router[str]) -> None:
    made.add_exchange("E", "fanout", None, {})


@pytest.mark.parametrize(
    "change",
    [
        bind_more,
        unbind,
        replace_destination,
        add_to_the_default_exchange,
        remove_from_the_default_exchange,
        add_the_missing_alternate,
    ],
)
def test_changes_of_two_exchanges_never_cancel_out(
    change: Callable[[Router[str]], None],
) -> None:
    # A leads to B, which has the queue q, to C, whose alternate is the default
    # exchange, and to D, whose alternate is missing.
    made = router(("A", "B"), ("B", "q"), ("A", "C"), ("A", "D"))
    made.set_alternate("C", "")
    made.set_alternate("D", "E")
    resolution = resolve(made)
    change(made)
    made.set_alternate("A", "B")
    assert not resolution.is_current()


def test_the_history_of_an_exchange_is_what_came_by() -> None:
    made = router()
    made.add_exchange("X", "x-recent-history", None, {})
    made.bind(binding("A", "X"))
    message = Sent(b"k")
    made.resolve("A", message)
    assert made.history("X") == [message]
    assert made.history("A") == []
    assert made.history("missing") == []


def test_random_exchanges_in_a_line_draw_apart() -> None:
    made = Router[str](seed=7)
    for name in "XYZ":
        made.add_exchange(name, "x-random", None, {})
    for name in "pqrs":
        made.add_destination(name, name)
    for way in ["XY", "XZ", "Yp", "Yq", "Zr", "Zs"]:
        made.bind(binding(way[0], way[1]))
    found = Counter(made.resolve("X", Sent(b"k")).destinations[0] for _ in range(4_000))
    assert set(found) == set("pqrs")
    assert all(900 < count < 1_100 for count in found.values())


def test_one_of_a_seed_draws_what_another_of_it_draws() -> None:
    drawn = []
    for _ in range(2):
        made = Router[str](seed=7)
        made.add_exchange("X", "x-random", None, {})
        for name in "pqrs":
            made.add_destination(name, name)
            made.bind(binding("X", name))
        drawn.append([made.resolve("X", Sent(b"k")).destinations for _ in range(20)])
    assert drawn[0] == drawn[1]
