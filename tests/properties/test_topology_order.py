"""Commits that come late change no answer: a broker with a disk against one without.

Clients ask for changes of the topology, each for the next when it has been answered, as
held channels do. The disk takes what waits and brings it back whenever it likes. The
other broker commits each change at once, in the order in which the first was asked.
Everybody must have been told the same, and both must have ended up the same, in memory,
on the disk and after a restart.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from amqpd.broker.ports import Step
from amqpd.broker.vhosts.session import Session
from tests.support.control_plane import ControlPlane, Outcome

QUEUES: Final = ("a", "b")
# Most meet at one exchange: it is bound, unbound, and ends with its last binding.
EXCHANGES: Final = ("x", "x", "x", "y")
CLIENTS: Final = 5

Ask = Callable[[ControlPlane, Session], Outcome]


@st.composite
def asks(draw: st.DrawFn) -> tuple[str, Ask]:
    """Anything that a client may ask for, with a description.

    Mostly about what is durable and what has bindings: there the disk matters.
    """
    queue = draw(st.sampled_from(QUEUES))
    exchange = draw(st.sampled_from(EXCHANGES))
    mostly = draw(st.sampled_from([True, True, True, False]))
    rarely = draw(st.sampled_from([False, False, False, True]))
    binding = (exchange, queue, False)
    if rarely:
        binding = (exchange, draw(st.sampled_from(EXCHANGES)), True)
    kinds: list[Callable[[], tuple[str, Ask]]] = [
        lambda: _declare_queue(queue, mostly, rarely),
        lambda: _delete_queue(queue),
        lambda: _delete_queue(queue),
        lambda: _declare_exchange(exchange, mostly, not rarely),
        lambda: _delete_exchange(exchange, rarely),
        lambda: _bind(binding),
        lambda: _bind(binding),
        lambda: _unbind(binding),
        lambda: _unbind(binding),
        lambda: _check_queue(queue),
        lambda: _check_exchange(exchange),
    ]
    return draw(st.sampled_from(kinds))()


def _declare_queue(name: str, durable: bool, auto_delete: bool) -> tuple[str, Ask]:
    return (
        f"declare queue {name} {durable=} {auto_delete=}",
        lambda plane, session: plane.declare_queue(
            session, name, durable=durable, auto_delete=auto_delete
        ),
    )


def _check_queue(name: str) -> tuple[str, Ask]:
    return f"check queue {name}", lambda plane, session: plane.check_queue(
        session, name
    )


def _delete_queue(name: str) -> tuple[str, Ask]:
    return f"delete queue {name}", lambda plane, session: plane.delete_queue(
        session, name
    )


def _declare_exchange(name: str, durable: bool, auto_delete: bool) -> tuple[str, Ask]:
    text = f"declare exchange {name} {durable=} {auto_delete=}"
    return text, lambda plane, session: plane.declare_exchange(
        session, name, "fanout", durable=durable, auto_delete=auto_delete
    )


def _check_exchange(name: str) -> tuple[str, Ask]:
    return f"check exchange {name}", lambda plane, session: plane.check_exchange(
        session, name
    )


def _delete_exchange(name: str, if_unused: bool) -> tuple[str, Ask]:
    return (
        f"delete exchange {name} {if_unused=}",
        lambda plane, session: plane.delete_exchange(
            session, name, if_unused=if_unused
        ),
    )


def _bind(binding: tuple[str, str, bool]) -> tuple[str, Ask]:
    source, destination, to_exchange = binding
    return (
        f"bind {source} to {destination}",
        lambda plane, session: plane.bind(
            session, source, destination, to_exchange=to_exchange
        ),
    )


def _unbind(binding: tuple[str, str, bool]) -> tuple[str, Ask]:
    source, destination, to_exchange = binding
    return (
        f"unbind {source} of {destination}",
        lambda plane, session: plane.unbind(
            session, source, destination, to_exchange=to_exchange
        ),
    )


class Client:
    """Asks for one thing at a time, of both brokers."""

    def __init__(self, late: ControlPlane, prompt: ControlPlane) -> None:
        self._late = late
        self._prompt = prompt
        self._late_session = late.guest()
        self._prompt_session = prompt.guest()
        self._answers: list[tuple[Outcome, Outcome]] = []
        self.last = ""

    @property
    def waits(self) -> bool:
        """Whether the last answer has not come."""
        return bool(self._answers) and not self._answers[-1][0].is_done

    def ask(self, text: str, what: Ask) -> None:
        """Ask both brokers; the prompt one has answered when this returns."""
        self.last = text
        late = what(self._late, self._late_session)
        prompt = what(self._prompt, self._prompt_session)
        self._prompt.commit()
        self._answers.append((late, prompt))

    def told(self) -> tuple[list[str], list[str]]:
        """All that each of the brokers has said."""
        late = [answer.told for answer, _ in self._answers]
        return late, [answer.told for _, answer in self._answers]


def state(plane: ControlPlane) -> object:
    """Everything that there is, in memory and on the disk."""
    return (
        {name: queue.durable for name, queue in plane.vhost.queues.items()},
        {name: queue.durable for name, queue in plane.vhost.exchanges.items()},
        plane.bindings(),
        # Which of two queues is older says nothing: their ids are what differs.
        sorted(row[1:] for row in plane.rows("queues")),
        plane.rows("exchanges"),
        plane.rows("bindings"),
    )


def durable_part(plane: ControlPlane) -> object:
    """What is to survive a restart."""
    queues = plane.vhost.queues
    exchanges = plane.vhost.exchanges
    return (
        {name for name, queue in queues.items() if queue.durable},
        {name for name, exchange in exchanges.items() if exchange.durable},
        plane.rows("bindings"),
    )


class Disk:
    """Takes what waits and brings it back, one step at a time."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._step: Step | None = None

    def move(self) -> None:
        """Begin a step, or complete the one that was begun."""
        if self._step is not None:
            self._plane.complete_commit(self._step)
            self._step = None
        elif self._plane.broker.metadata_has_work():
            self._step = self._plane.begin_commit()

    def finish(self) -> None:
        """Go on until nothing is left."""
        while self._step is not None or self._plane.broker.metadata_has_work():
            self.move()


def end_queue(name: str, late: ControlPlane, prompt: ControlPlane) -> None:
    """The queue's last consumer goes away: it ends whatever the disk does."""
    for plane in (late, prompt):
        queue = plane.vhost.queues.get(name)
        if queue is not None:
            plane.vhost.delete_queue_now(queue)
    prompt.commit()


def may_end(clients: list[Client]) -> bool:
    """Whether a queue may end now without it mattering who came first.

    It does not wait in line like what clients ask for, so nobody else may either; a
    binding that is on its way to the disk is what it may meet.
    """
    waiting = [client.last for client in clients if client.waits]
    return len(waiting) <= 1 and all("bind" in text for text in waiting)


Event = tuple[int, tuple[str, Ask]] | str | None


@st.composite
def events(draw: st.DrawFn) -> Event:
    """A client asks; or None, the disk moves; or a text, the queue of it ends."""
    what = draw(st.integers(0, 9))
    if what < 7:
        return draw(st.integers(0, CLIENTS - 1)), draw(asks())
    return None if what < 9 else draw(st.sampled_from(QUEUES))


def begin(plane: ControlPlane, queues: list[str]) -> None:
    """All exchanges are there and bound once; everything is durable."""
    guest = plane.guest()
    for name in queues:
        plane.declare_queue(guest, name, durable=True)
    for name in sorted(set(EXCHANGES)):
        plane.declare_exchange(guest, name, "fanout", durable=True, auto_delete=True)
    plane.bind(guest, "x", "a")
    plane.bind(guest, "y", "x", to_exchange=True)
    plane.commit()


@given(
    queues=st.sampled_from([["a"], ["a", "b"]]),
    script=st.lists(events(), min_size=15, max_size=40),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_late_commits_change_no_answer(
    queues: list[str],
    script: list[Event],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        late = ControlPlane(Path(directory, "late"))
        prompt = ControlPlane(Path(directory, "prompt"))
        begin(late, queues)
        begin(prompt, queues)
        clients = [Client(late, prompt) for _ in range(CLIENTS)]
        disk = Disk(late)
        for entry in script:
            if entry is None:
                disk.move()
            elif isinstance(entry, str):
                if may_end(clients):
                    note(f"queue {entry} ends")
                    end_queue(entry, late, prompt)
            elif not clients[entry[0]].waits:
                number, (text, what) = entry
                note(f"{number}: {text}")
                clients[number].ask(text, what)
        disk.finish()
        for client in clients:
            by_late, by_prompt = client.told()
            assert by_late == by_prompt
        assert state(late) == state(prompt)
        before = durable_part(late)
        late.reopen()
        assert durable_part(late) == before
        late.bench.close()
        prompt.bench.close()
