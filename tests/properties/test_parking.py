"""Alarms change nothing but the time: each channel gets its answers, in order.

The same stream on three channels, cut into any pieces, once without alarms and once
with alarms that come and go between the pieces. Every channel works on a queue of its
own, so its answers must be the same, and so must what its queue holds in the end.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import commands

from amqpd.broker.alarms import ResourceLimit
from tests.support.connection_pair import Bench, method
from tests.support.content import PERSISTENT_PROPERTIES, publish
from tests.support.fast_directory import fast_directory

CHANNELS = (1, 2, 3)

#: What a channel does, given its own queue name.
Action = Callable[[int, str], bytes]


def declare(channel: int, name: str) -> bytes:
    return method(channel, commands.Queue.Declare(queue=name))


def publish_whole(channel: int, name: str) -> bytes:
    return publish(name, b"whole", channel=channel, mandatory=True)


def publish_stored(channel: int, name: str) -> bytes:
    properties = PERSISTENT_PROPERTIES
    return publish(name, b"x", "", properties, channel, mandatory=True)


def publish_in_frames(channel: int, name: str) -> bytes:
    return publish(name, b"many frames", channel=channel, frame_size=3)


def get(channel: int, name: str) -> bytes:
    return method(channel, commands.Basic.Get(queue=name, no_ack=True))


def confirm(channel: int, name: str) -> bytes:
    return method(channel, commands.Confirm.Select())


def select(channel: int, name: str) -> bytes:
    return method(channel, commands.Tx.Select())


def commit(channel: int, name: str) -> bytes:
    return method(channel, commands.Tx.Commit())


def reopen(channel: int, name: str) -> bytes:
    close = method(channel, commands.Channel.Close(200, "", 0, 0))
    return close + method(channel, commands.Channel.Open())


CLOSES = (commands.Channel.Close, commands.Connection.Close)

ACTIONS: list[Action] = [
    declare,
    declare,
    publish_whole,
    publish_whole,
    publish_stored,
    publish_in_frames,
    publish_in_frames,
    get,
    get,
    confirm,
    select,
    commit,
    reopen,
]
SCRIPTS = st.lists(
    st.tuples(st.sampled_from(CHANNELS), st.sampled_from(ACTIONS)), max_size=40
)
CUTS = st.lists(st.integers(1, 4000), max_size=15)
ALARMS = st.lists(st.booleans(), min_size=16, max_size=16)
Script = list[tuple[int, Action]]


def set_alarm(bench: Bench, is_on: bool) -> None:
    bench.broker.alarms.set_memory_watermark(ResourceLimit(0 if is_on else 2))


def outcome(script: Script, cuts: list[int], alarms: list[bool]) -> list[object]:
    """What every channel was answered, and what is left in the queues."""
    with fast_directory() as directory:
        bench = Bench(directory)
        bench.broker.alarms.on_measured(1, 1 << 40, bench.now_ms)
        pair = bench.connect(131072, 2047, *CHANNELS)
        stream = b"".join(action(channel, f"q{channel}") for channel, action in script)
        edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
        for start, end, is_on in zip(edges, edges[1:], alarms, strict=False):
            set_alarm(bench, is_on)
            pair.send(stream[start:end])
            bench.run_idle()
        set_alarm(bench, False)
        bench.run_idle()
        answers: dict[int, list[object]] = {channel: [] for channel in CHANNELS}
        confirmed = dict.fromkeys(CHANNELS, 0)
        is_closed = False
        for taken in pair.take():
            answer = taken.method if taken.kind == 1 else None
            is_closed = is_closed or isinstance(answer, CLOSES)
            if isinstance(answer, commands.Basic.Ack):
                # When and how many at a time is open.
                confirmed[taken.channel] = int(answer.delivery_tag or 0)
            elif taken.channel:
                answers[taken.channel].append(taken.payload)
        left = [
            (name, queue.ready_count)
            for name, queue in sorted(bench.broker.vhosts["/"].queues.items())
        ]
        bench.close()
        if reopen in [action for _, action in script] or is_closed:
            # Who closes does not hear of what was under way.
            confirmed.clear()
        assert bench.broker.alarms.parked_size == 0
        return [answers, confirmed, left]


@given(SCRIPTS, CUTS, ALARMS)
@settings(max_examples=50, deadline=None)
def test_alarms_that_come_and_go_change_no_answer(
    script: Script, cuts: list[int], alarms: list[bool]
) -> None:
    calm = outcome(script, cuts, [False] * len(alarms))
    alarmed = outcome(script, cuts, alarms)
    assert alarmed == calm
