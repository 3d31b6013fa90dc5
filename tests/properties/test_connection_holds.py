"""Holding channels changes nothing but the time: each channel gets its answers.

The same methods on three channels, once with a disk that is always done at once, and
once with commits and syncs that come back whenever they like. Every channel works on
names of its own, so its answers must be the same, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import base, commands

from tests.support.connection_pair import Bench, ConnectionPair, method
from tests.support.content import NO_PROPERTIES, PERSISTENT_PROPERTIES, publish
from tests.support.fast_directory import fast_directory

CHANNELS = (1, 2, 3)

#: What a channel does, given its own queue name.
Action = Callable[[int, str], bytes]


def declare(channel: int, name: str) -> bytes:
    return method(channel, commands.Queue.Declare(queue=name, durable=True))


def declare_otherwise(channel: int, name: str) -> bytes:
    return method(channel, commands.Queue.Declare(queue=name, durable=False))


def delete(channel: int, name: str) -> bytes:
    return method(channel, commands.Queue.Delete(queue=name))


def purge(channel: int, name: str) -> bytes:
    return method(channel, commands.Queue.Purge(queue=name))


def bind(channel: int, name: str) -> bytes:
    binding = commands.Queue.Bind(queue=name, exchange="amq.direct", routing_key=name)
    return method(channel, binding)


def unbind(channel: int, name: str) -> bytes:
    binding = commands.Queue.Unbind(queue=name, exchange="amq.direct", routing_key=name)
    return method(channel, binding)


def publish_stored(channel: int, name: str) -> bytes:
    properties = PERSISTENT_PROPERTIES
    return publish(name, b"x", "", properties, channel, mandatory=True)


def publish_bound(channel: int, name: str) -> bytes:
    return publish(name, b"y", "amq.direct", NO_PROPERTIES, channel, mandatory=True)


def get(channel: int, name: str) -> bytes:
    return method(channel, commands.Basic.Get(queue=name, no_ack=True))


def select(channel: int, name: str) -> bytes:
    return method(channel, commands.Tx.Select())


def commit(channel: int, name: str) -> bytes:
    return method(channel, commands.Tx.Commit())


ACTIONS: list[Action] = [
    declare,
    declare,
    declare_otherwise,
    delete,
    purge,
    bind,
    unbind,
    publish_stored,
    publish_stored,
    publish_bound,
    get,
    select,
    commit,
]
SCRIPTS = st.lists(
    st.tuples(st.sampled_from(CHANNELS), st.sampled_from(ACTIONS)), max_size=30
)
#: What happens between two methods.
PAUSES = st.lists(
    st.sampled_from(["nothing", "nothing", "turn", "commit", "sync", "begin", "end"]),
    min_size=30,
    max_size=30,
)
Script = list[tuple[int, Action]]


class LateDisk:
    """Begins and ends steps when it is told to, in order."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._sync = bench.begin_sync()
        self._commit = bench.broker.begin_metadata()

    def begin(self) -> None:
        """Take what waits, if nothing is on the way."""
        if self._sync is None:
            self._sync = self._bench.begin_sync()
        if self._commit is None:
            self._commit = self._bench.broker.begin_metadata()

    def end(self) -> None:
        """Bring back what is on the way."""
        sync, commit = self._sync, self._commit
        self._sync = self._commit = None
        if commit is not None:
            commit.run()
            self._bench.broker.complete_metadata(commit)
        if sync is not None:
            sync.run()
            assert self._bench.complete_sync(sync) is None

    def happen(self, what: str) -> None:
        """Do one of the things that may happen between two reads."""
        if what == "turn":
            self._bench.turn()
        elif what == "begin":
            self.begin()
        elif what == "end":
            self.end()
        elif what == "commit" and self._commit is None:
            self._bench.commit()
        elif what == "sync" and self._sync is None:
            self._bench.sync()


def answers(
    script: Script, happen: Callable[[Bench, LateDisk, int], None]
) -> dict[int, list[object]]:
    """What every channel was answered, in order."""
    with fast_directory() as directory:
        bench = Bench(directory)
        pair = bench.connect(131072, 2047, *CHANNELS)
        late = LateDisk(bench)
        for step, (channel, action) in enumerate(script):
            pair.send(action(channel, f"queue of {channel}"))
            happen(bench, late, step)
        late.end()
        bench.run_idle()
        found = seen(pair)
        bench.close()
        return found


def seen(pair: ConnectionPair) -> dict[int, list[object]]:
    found: dict[int, list[object]] = {channel: [] for channel in CHANNELS}
    for taken in pair.take():
        found[taken.channel].append(
            told(taken.method) if taken.kind == 1 else taken.payload
        )
    return found


def told(answer: base.Frame) -> tuple[str, dict[str, object]]:
    return answer.name, dict(answer)


@given(SCRIPTS, PAUSES)
@settings(max_examples=60, deadline=None)
def test_any_interleaving_of_completions_gives_the_answers_of_an_instant_disk(
    script: Script, pauses: list[str]
) -> None:
    instant = answers(script, lambda bench, late, step: bench.run_idle())
    late = answers(script, lambda bench, late, step: late.happen(pauses[step]))
    assert late == instant
