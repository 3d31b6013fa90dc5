"""Whatever a client sends, only that client suffers.

Streams of methods in any order, valid or not, cut anywhere, with octets changed, taken
out, doubled or put in, and octets that were never a stream: nothing gets out of
`receive_data` but frames, other connections are served, and when the client is gone its
queues have every message that was not settled and nobody's unacked ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import base, commands

from amqpd.protocol.lifecycle import State
from tests.support.connection_pair import Bench, ConnectionPair, method, octets_of
from tests.support.content import (
    NO_PROPERTIES,
    PERSISTENT_PROPERTIES,
    frame,
    publish,
)
from tests.support.fast_directory import fast_directory
from tests.support.raw_client import HEARTBEAT_FRAME, PROTOCOL_HEADER

#: Durable and not; the last one is never declared by name alone.
QUEUES = ("q", "r", "d", "e")
DURABLE = ("d", "e")

names = st.sampled_from(QUEUES)
# Mostly the two that are open.
channels = st.sampled_from([1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 0])
tags = st.integers(0, 12)
flags = st.booleans()


def declared(channel: int, name: str, passive: bool) -> bytes:
    sent = commands.Queue.Declare(
        queue=name, durable=name in DURABLE, passive=passive, auto_delete=name == "r"
    )
    return method(channel, sent)


def published(
    channel: int, name: str, is_stored: bool, size: int, whole: bool
) -> bytes:
    return publish(
        name if size % 7 else "k",
        b"x" * size,
        "" if size % 7 else "amq.direct",
        PERSISTENT_PROPERTIES if is_stored else NO_PROPERTIES,
        channel,
        mandatory=size % 3 == 0,
        frame_size=131064 if whole else 5,
    )


def methods(of: st.SearchStrategy[base.Frame]) -> st.SearchStrategy[bytes]:
    return st.builds(method, channels, of)


#: One thing that a client may send.
PIECES = st.one_of(
    st.builds(declared, channels, names, flags),
    st.builds(published, channels, names, flags, st.integers(0, 40), flags),
    st.builds(published, channels, names, flags, st.integers(0, 40), flags),
    methods(st.just(commands.Channel.Open())),
    methods(st.just(commands.Channel.Close(200, "", 0, 0))),
    methods(st.just(commands.Channel.CloseOk())),
    methods(st.just(commands.Confirm.Select())),
    methods(st.just(commands.Tx.Select())),
    methods(st.just(commands.Tx.Commit())),
    methods(st.just(commands.Tx.Rollback())),
    methods(st.just(commands.Basic.Recover(True))),
    methods(st.builds(commands.Basic.Ack, tags, flags)),
    methods(st.builds(commands.Basic.Nack, tags, flags, flags)),
    methods(st.builds(commands.Basic.Reject, tags, flags)),
    methods(
        st.builds(
            lambda name, tag, no_ack, exclusive: commands.Basic.Consume(
                queue=name, consumer_tag=tag, no_ack=no_ack, exclusive=exclusive
            ),
            names,
            st.sampled_from(["", "a", "b"]),
            flags,
            flags,
        )
    ),
    methods(st.builds(commands.Basic.Cancel, st.sampled_from(["a", "b"]), flags)),
    methods(
        st.builds(
            lambda name, no_ack: commands.Basic.Get(queue=name, no_ack=no_ack),
            names,
            flags,
        )
    ),
    methods(
        st.builds(
            lambda count, is_global: commands.Basic.Qos(0, count, is_global),
            st.integers(0, 4),
            flags,
        )
    ),
    methods(
        st.builds(
            lambda name: commands.Queue.Bind(
                queue=name, exchange="amq.direct", routing_key="k"
            ),
            names,
        )
    ),
    methods(st.builds(lambda name: commands.Queue.Purge(queue=name), names)),
    methods(
        st.builds(
            lambda name, if_empty: commands.Queue.Delete(queue=name, if_empty=if_empty),
            names,
            flags,
        )
    ),
    st.just(method(0, commands.Connection.Close(200, "", 0, 0))),
    st.just(HEARTBEAT_FRAME),
    st.builds(frame, st.integers(0, 9), channels, st.binary(max_size=20)),
)
STREAMS = st.lists(PIECES, max_size=25)

#: What is done to the octets of a stream: where, what, and with what.
HARM = st.lists(
    st.tuples(
        st.integers(0, 3000),
        st.sampled_from(["change", "drop", "double", "insert"]),
        st.binary(min_size=1, max_size=6),
    ),
    max_size=3,
)
CUTS = st.lists(st.integers(0, 3000), max_size=6)


def harmed(stream: bytes, harm: list[tuple[int, str, bytes]]) -> bytes:
    for where, what, octets in harm:
        at = where % (len(stream) + 1)
        end = at + len(octets)
        middle = {
            "change": octets,
            "drop": b"",
            "double": stream[at:end] * 2,
            "insert": octets + stream[at:end],
        }[what]
        stream = stream[:at] + middle + stream[end:]
    return stream


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[Bench, ConnectionPair]]:
    """One broker for all examples, and a connection that must always be served."""
    with fast_directory() as directory:
        bench = Bench(directory)
        yield bench, bench.connect()
        bench.close()


def forget_queues(bench: Bench) -> None:
    vhost = bench.broker.vhosts["/"]
    for queue in list(vhost.queues.values()):
        vhost.delete_queue_now(queue)
    bench.run_idle()


def receive_all(pair: ConnectionPair, data: bytes, cuts: list[int]) -> None:
    """Send everything; the disk comes back now and then, and so does the clock."""
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for number, (start, end) in enumerate(pairwise(edges)):
        pair.send(data[start:end])
        pair.bench.turn()
        if number % 2:
            pair.bench.run_idle()
        check_no_failure(pair)
    pair.connection.on_time(pair.bench.now_ms)
    pair.bench.run_idle()
    check_no_failure(pair)


def check_no_failure(pair: ConnectionPair) -> list[base.Frame]:
    """Whatever was refused was foreseen; returns the methods that came."""
    found = [received.method for received in pair.take() if received.kind == 1]
    for one in found:
        if isinstance(one, commands.Connection.Close):
            assert one.reply_code != 541, one.reply_text
    return found


def check_served(bystander: ConnectionPair) -> None:
    """A round trip of somebody else."""
    bystander.declare("bystander")
    bystander.send(publish("bystander", b"hello"))
    bystander.send(method(1, commands.Basic.Get(queue="bystander", no_ack=True)))
    frames = bystander.take()
    assert frames[0].method.name == "Basic.GetOk"
    assert frames[2].payload == b"hello"


def check_queues(bench: Bench) -> None:
    """Nobody is connected who could have anything unacked."""
    for queue in bench.broker.vhosts["/"].queues.values():
        assert queue.unacked_count == 0
        assert queue.consumer_count == 0
        taken = [queue.get(False) for _ in range(queue.ready_count)]
        seqs = [reference.seq for reference in taken if reference is not None]
        assert len(seqs) == len(taken)
        assert seqs == sorted(set(seqs))
        assert queue.get(False) is None
        for reference in taken:
            assert reference is not None
            queue.requeue(reference)
        assert (queue.ready_count, queue.unacked_count) == (len(taken), 0)


Shared = tuple[Bench, ConnectionPair]


@given(STREAMS, HARM, CUTS)
@settings(max_examples=300, deadline=None)
def test_any_stream_harms_only_its_sender(
    shared: Shared,
    pieces: list[bytes],
    harm: list[tuple[int, str, bytes]],
    cuts: list[int],
) -> None:
    bench, bystander = shared
    forget_queues(bench)
    client = bench.connect(131072, 2047, 1, 2)
    receive_all(client, harmed(b"".join(pieces), harm), cuts)
    client.connection.lose_socket("gone")
    bench.run_idle()
    assert octets_of(client.output) == b""
    check_served(bystander)
    check_queues(bench)


@given(st.binary(max_size=200), flags, CUTS)
@settings(max_examples=100, deadline=None)
def test_any_octets_from_the_first_on_harm_only_their_sender(
    shared: Shared, octets: bytes, is_greeting: bool, cuts: list[int]
) -> None:
    bench, bystander = shared
    client = bench.accept()
    receive_all(client, (PROTOCOL_HEADER if is_greeting else b"") + octets, cuts)
    client.connection.lose_socket("gone")
    check_served(bystander)


class Stubborn:
    """A client that goes on whatever it is refused: on a new channel or connection."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._pair = bench.connect(131072, 2047, 1, 2)

    def send(self, piece: bytes) -> None:
        """Send octets, and make up for what they have cost."""
        self._pair.send(piece)
        self._bench.turn()
        self.look()

    def look(self) -> None:
        """See what came, and open again what was closed."""
        state = self._pair.connection.control.state
        for received in self._pair.take():
            if received.kind != 1:
                continue
            one = received.method
            if isinstance(one, commands.Connection.Close):
                assert one.reply_code != 541, one.reply_text
            if isinstance(one, commands.Channel.Close):
                self._pair.send(method(received.channel, commands.Channel.CloseOk()))
            if isinstance(one, commands.Channel.Close | commands.Channel.CloseOk):
                self._pair.send(method(received.channel, commands.Channel.Open()))
        if state is not State.OPEN:
            self.leave()
            self._bench.run_idle()
            self._pair = self._bench.connect(131072, 2047, 1, 2)

    def leave(self) -> None:
        """Vanish."""
        self._pair.connection.lose_socket("gone")


@given(st.lists(st.tuples(st.integers(0, 1), PIECES), max_size=60), st.integers(0, 60))
@settings(max_examples=120, deadline=None)
def test_two_clients_leave_consistent_queues(
    shared: Shared, pieces: list[tuple[int, bytes]], first_gone: int
) -> None:
    bench, bystander = shared
    forget_queues(bench)
    clients = [Stubborn(bench), Stubborn(bench)]
    for name in QUEUES:
        clients[0].send(declared(1, name, False))
        bench.run_idle()
    for number, (who, piece) in enumerate(pieces):
        if number == first_gone:
            clients[0].leave()
        clients[who].send(piece)
        if number % 5 == 4:
            bench.run_idle()
            clients[0].look()
            clients[1].look()
    for client in clients:
        client.leave()
    bench.run_idle()
    check_served(bystander)
    check_queues(bench)


@given(st.lists(PIECES, max_size=60))
@settings(max_examples=30, deadline=None)
def test_what_the_queues_have_is_what_a_restart_finds(pieces: list[bytes]) -> None:
    with fast_directory() as directory:
        bench = Bench(directory)
        client = Stubborn(bench)
        for name in QUEUES:
            client.send(declared(1, name, False))
            bench.run_idle()
        for number, piece in enumerate(pieces):
            client.send(piece)
            if number % 7 == 6:
                bench.run_idle()
        client.leave()
        bench.run_idle()
        expected = stored(bench)
        bench.close()
        again = Bench(directory)
        assert stored(again) == expected
        again.close()


def stored(bench: Bench) -> dict[str, list[int]]:
    """The persistent messages of every durable queue, by seq."""
    found = {}
    for queue in bench.broker.vhosts["/"].queues.values():
        if queue.durable:
            taken = [queue.get(False) for _ in range(queue.ready_count)]
            found[queue.name] = [
                int(reference.seq)
                for reference in taken
                if reference is not None and reference.message.number >= 0
            ]
            for reference in taken:
                assert reference is not None
                queue.requeue(reference)
    return found
