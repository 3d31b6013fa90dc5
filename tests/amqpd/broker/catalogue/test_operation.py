"""The line of operations: who waits for whom, and who does not."""

from pathlib import Path

import pytest

from tests.support.control_plane import ControlPlane


@pytest.fixture
def plane(tmp_path: Path) -> ControlPlane:
    return ControlPlane(tmp_path)


def test_a_second_declaration_waits_for_the_first(plane: ControlPlane) -> None:
    first = plane.declare_queue(plane.guest(), "q", durable=True)
    second = plane.declare_queue(plane.guest(), "q", durable=True)
    different = plane.declare_queue(plane.guest(), "q")
    assert not second.is_done
    plane.commit()
    assert second.queue is first.queue
    assert different.refusal.startswith("406 inequivalent arg 'durable'")


def test_other_names_do_not_wait(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.declare_queue(guest, "q", durable=True)
    assert plane.declare_queue(guest, "other").is_done
    assert plane.declare_exchange(guest, "q").is_done


def test_who_waits_keeps_its_place(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "x")
    plane.declare_queue(guest, "q", durable=True)
    bound = plane.bind(guest, "x", "q")
    deleted = plane.delete_exchange(guest, "x")
    assert (bound.is_done, deleted.is_done) == (False, False)
    plane.commit()
    assert (bound.value, deleted.value) == (None, None)
    assert plane.bindings() == set()


def test_what_was_done_meanwhile_is_seen(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.declare_queue(guest, "q", durable=True)
    plane.commit()
    plane.delete_queue(guest, "q")
    again = plane.declare_queue(guest, "q", durable=True, auto_delete=True)
    plane.commit()
    assert again.queue.auto_delete


def test_a_failure_lets_the_next_go_on(plane: ControlPlane) -> None:
    plane.break_disk("queues")
    first = plane.declare_queue(plane.guest(), "q", durable=True)
    second = plane.check_queue(plane.guest(), "q")
    plane.commit()
    assert first.refusal.startswith("506")
    assert second.refusal == "404 no queue 'q' in vhost '/'"


def test_what_comes_during_a_commit_is_in_the_next(plane: ControlPlane) -> None:
    guest = plane.guest()
    first = plane.declare_queue(guest, "a", durable=True)
    step = plane.begin_commit()
    second = plane.declare_queue(guest, "b", durable=True)
    plane.complete_commit(step)
    assert (first.is_done, second.is_done) == (True, False)
    plane.commit()
    assert second.is_done


def test_a_deletion_waits_for_an_exchange_that_it_would_take_along(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "x", durable=True, auto_delete=True)
    for name in ("q", "other"):
        plane.declare_queue(guest, name, durable=True)
    plane.commit()
    plane.bind(guest, "x", "q")
    plane.commit()
    plane.bind(guest, "x", "other")
    deleted = plane.delete_queue(guest, "q")
    plane.bench.commit()
    assert not deleted.is_done
    plane.commit()
    assert deleted.value == 0
    assert plane.bindings() == {("x", "other", b"k")}


def test_who_came_before_may_use_what_a_deletion_would_take_along(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "x", durable=True, auto_delete=True)
    plane.declare_queue(guest, "q", durable=True)
    plane.commit()
    plane.bind(guest, "x", "q")
    plane.commit()
    plane.declare_queue(guest, "other", durable=True)
    bound = plane.bind(guest, "x", "other")
    deleted = plane.delete_queue(guest, "q")
    assert (bound.is_done, deleted.is_done) == (False, False)
    plane.commit()
    assert (bound.value, deleted.value) == (None, 0)
    assert "x" in plane.vhost.exchanges


def test_an_answer_may_bring_the_next_operation(plane: ControlPlane) -> None:
    guest = plane.guest()
    values: list[object] = []

    def declare_next(value: object) -> None:
        values.append(value)
        if len(values) < 3:
            plane.vhost.check_queue(guest, "q", declare_next)

    plane.declare_queue(guest, "q", durable=True)
    plane.vhost.check_queue(guest, "q", declare_next)
    waiting = plane.delete_queue(guest, "q")
    plane.commit()
    assert len(values) == 3
    assert waiting.value == 0


def test_who_waits_is_not_overtaken_when_something_else_is_done(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "x")
    plane.declare_queue(guest, "unrelated", durable=True)
    step = plane.begin_commit()
    plane.declare_queue(guest, "q", durable=True)
    bound = plane.bind(guest, "x", "q")
    found = plane.check_exchange(guest, "x")
    assert (bound.is_done, found.is_done) == (False, False)
    plane.complete_commit(step)
    assert (bound.is_done, found.is_done) == (False, False)
    plane.commit()
    assert (bound.value, found.value) == (None, None)


@pytest.mark.parametrize("way", ["delete queue", "delete exchange", "unbind"])
def test_what_is_taken_along_is_busy_too(plane: ControlPlane, way: str) -> None:
    guest = plane.guest()
    for name in ("far", "near"):
        plane.declare_exchange(guest, name, durable=True, auto_delete=True)
    plane.declare_exchange(guest, "last", durable=True)
    plane.declare_queue(guest, "q", durable=True)
    plane.commit()
    plane.bind(guest, "far", "near", to_exchange=True)
    if way == "delete queue":
        plane.bind(guest, "near", "q")
        plane.commit()
        plane.delete_queue(guest, "q")
    else:
        plane.bind(guest, "near", "last", to_exchange=True)
        plane.commit()
        if way == "unbind":
            plane.unbind(guest, "near", "last", to_exchange=True)
        else:
            plane.delete_exchange(guest, "last")
    found = [plane.check_exchange(plane.guest(), name) for name in ("near", "far")]
    assert [one.is_done for one in found] == [False, False]
    plane.commit()
    assert [one.refusal for one in found] == [
        "404 no exchange 'near' in vhost '/'",
        "404 no exchange 'far' in vhost '/'",
    ]


def test_an_exchange_waits_for_a_source_that_it_would_take_along(
    plane: ControlPlane,
) -> None:
    guest = plane.guest()
    for name in ("up", "x"):
        plane.declare_exchange(guest, name, durable=True, auto_delete=True)
    for name in ("q", "other"):
        plane.declare_queue(guest, name, durable=True)
    plane.commit()
    plane.bind(guest, "up", "x", to_exchange=True)
    plane.bind(guest, "x", "q")
    plane.commit()
    plane.bind(guest, "up", "other")
    unbound = plane.unbind(guest, "x", "q")
    deleted = plane.delete_exchange(plane.guest(), "x")
    plane.bench.commit()
    assert (unbound.is_done, deleted.is_done) == (False, False)
    plane.commit()
    assert (unbound.value, deleted.value) == (None, None)
    assert plane.bindings() == {("up", "other", b"k")}


def test_an_exchange_that_is_deleted_waits_for_its_source(plane: ControlPlane) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "up", durable=True, auto_delete=True)
    plane.declare_exchange(guest, "x", durable=True)
    plane.declare_queue(guest, "other", durable=True)
    plane.commit()
    plane.bind(guest, "up", "x", to_exchange=True)
    plane.commit()
    plane.bind(guest, "up", "other")
    deleted = plane.delete_exchange(guest, "x")
    plane.bench.commit()
    assert not deleted.is_done
    plane.commit()
    assert deleted.value is None
    assert "up" in plane.vhost.exchanges


@pytest.mark.parametrize("is_declared", [True, False])
def test_what_is_being_bound_may_be_taken_along(
    plane: ControlPlane, is_declared: bool
) -> None:
    guest = plane.guest()
    plane.declare_exchange(guest, "x", durable=True, auto_delete=True)
    plane.declare_queue(guest, "q", durable=True)
    if is_declared:
        plane.commit()
    plane.bind(guest, "x", "q")
    deleted = plane.delete_queue(guest, "q")
    found = plane.check_exchange(guest, "x")
    plane.commit()
    assert deleted.value == 0
    assert found.refusal == "404 no exchange 'x' in vhost '/'"
