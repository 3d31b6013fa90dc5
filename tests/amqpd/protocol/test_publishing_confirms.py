"""Publisher confirms: who is answered when, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import commands

from tests.support.connection_pair import (
    Bench,
    ConnectionPair,
    contents,
    method,
    octets_of,
)
from tests.support.content import PERSISTENT_PROPERTIES, publish
from tests.support.failing_disk import FailingDisk
from tests.support.raw_client import ReceivedFrame


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


@pytest.fixture
def bench(fast_path: Path, disk: FailingDisk) -> Iterator[Bench]:
    bench = Bench(fast_path, disk)
    yield bench
    bench.close()


@pytest.fixture
def confirming(bench: Bench) -> ConnectionPair:
    """A channel in confirm mode, with the queue q and the durable queues d and e."""
    pair = bench.connect()
    pair.declare("q")
    pair.declare("d", durable=True)
    pair.declare("e", durable=True)
    pair.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
    return pair


def persistent(queue: str, exchange: str = "") -> bytes:
    return publish(queue, b"x", exchange, PERSISTENT_PROPERTIES)


def answers(pair: ConnectionPair) -> list[str]:
    """The frames that came, acks and nacks in short: ack 3 multiple."""
    return [shown(frame) for frame in pair.take() if frame.kind == 1]


def shown(received: ReceivedFrame) -> str:
    found = received.method
    if isinstance(found, commands.Basic.Ack | commands.Basic.Nack):
        word = "ack" if isinstance(found, commands.Basic.Ack) else "nack"
        return f"{word} {found.delivery_tag}" + (" multiple" if found.multiple else "")
    return found.name


# -- confirms -----------------------------------------------------------------


def test_without_confirm_mode_nothing_is_answered(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.declare("d", durable=True)
    pair.send(persistent("d"), publish("d"))
    bench.run_idle()
    assert pair.take() == []


def test_transient_messages_are_confirmed_with_the_next_write(
    confirming: ConnectionPair,
) -> None:
    confirming.send(publish("q"), publish("q"), publish("d"))
    assert answers(confirming) == ["ack 3 multiple"]
    confirming.send(publish("nowhere"))
    assert answers(confirming) == ["ack 4"]


def test_persistent_messages_are_confirmed_with_the_sync(
    bench: Bench, confirming: ConnectionPair
) -> None:
    confirming.send(persistent("d"), persistent("e"))
    assert answers(confirming) == []
    bench.sync()
    assert answers(confirming) == ["ack 2 multiple"]


def test_persistent_messages_for_no_durable_queue_do_not_wait(
    confirming: ConnectionPair,
) -> None:
    confirming.send(persistent("q"), persistent("nowhere"))
    assert answers(confirming) == ["ack 2 multiple"]


def test_transient_messages_do_not_wait_for_persistent_ones_before_them(
    bench: Bench, confirming: ConnectionPair
) -> None:
    confirming.send(
        persistent("d"), publish("q"), persistent("d"), persistent("d"), publish("q")
    )
    # multiple must not speak for 1, which waits.
    assert answers(confirming) == ["ack 2", "ack 5"]
    bench.sync()
    assert answers(confirming) == ["ack 4 multiple"]


def test_ranges_of_several_reads_wait_for_their_own_sync(
    bench: Bench, confirming: ConnectionPair
) -> None:
    confirming.send(persistent("d"), publish("q"), persistent("d"))
    step = bench.begin_sync()
    assert step is not None
    confirming.send(persistent("d"))
    assert answers(confirming) == ["ack 2"]
    step.run()
    bench.complete_sync(step)
    assert answers(confirming) == ["ack 3 multiple"]
    bench.sync()
    assert answers(confirming) == ["ack 4"]


def test_what_a_consumer_has_acked_already_is_confirmed_as_well(
    bench: Bench, confirming: ConnectionPair
) -> None:
    consumer = bench.connect()
    consumer.consume("d", no_ack=True)
    confirming.send(persistent("d"))
    bench.turn()
    assert consumer.deliveries() == [b"x"]
    bench.sync()
    assert answers(confirming) == ["ack 1"]


def test_a_fanout_is_confirmed_once_when_all_durable_queues_have_it(
    bench: Bench, confirming: ConnectionPair
) -> None:
    for queue in ("q", "d", "e"):
        binding = commands.Queue.Bind(queue=queue, exchange="amq.fanout")
        confirming.call(1, binding, commands.Queue.BindOk)
    confirming.send(persistent("", exchange="amq.fanout"), publish("q"))
    assert answers(confirming) == ["ack 2"]
    bench.sync()
    assert answers(confirming) == ["ack 1"]


def test_an_unroutable_mandatory_message_is_returned_before_it_is_confirmed(
    confirming: ConnectionPair,
) -> None:
    confirming.send(publish("q"), publish("nowhere", mandatory=True), publish("q"))
    assert answers(confirming) == ["Basic.Return", "ack 3 multiple"]


def test_two_channels_count_on_their_own(
    bench: Bench, confirming: ConnectionPair
) -> None:
    confirming.call(2, commands.Channel.Open(), commands.Channel.OpenOk)
    confirming.call(2, commands.Confirm.Select(), commands.Confirm.SelectOk)
    confirming.send(persistent("d"), persistent("d"))
    confirming.send(publish("d", properties=PERSISTENT_PROPERTIES, channel=2))
    bench.sync()
    found = [(frame.channel, shown(frame)) for frame in confirming.take()]
    assert sorted(found) == [(1, "ack 2 multiple"), (2, "ack 1")]


def test_what_is_settled_is_answered_before_the_channel_closes(
    confirming: ConnectionPair,
) -> None:
    confirming.send(publish("q"), publish("k", exchange="nope"))
    assert answers(confirming) == ["ack 1", "Channel.Close"]


def test_what_is_settled_is_answered_before_close_ok(
    confirming: ConnectionPair,
) -> None:
    close = commands.Channel.Close(200, "bye", 0, 0)
    confirming.send(publish("q"), method(1, close))
    assert answers(confirming) == ["ack 1", "Channel.CloseOk"]


def test_a_sync_that_comes_back_after_the_channel_is_closed_answers_nobody(
    bench: Bench, confirming: ConnectionPair
) -> None:
    close = commands.Channel.Close(200, "bye", 0, 0)
    confirming.send(persistent("d"), method(1, close))
    confirming.expect(1, commands.Channel.CloseOk)
    bench.sync()
    assert confirming.take() == []
    confirming.call(1, commands.Channel.Open(), commands.Channel.OpenOk)
    assert bench.broker.vhosts["/"].queues["d"].ready_count == 1


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_sync_that_comes_back_after_the_socket_is_lost_answers_nobody(
    bench: Bench, confirming: ConnectionPair, disk: FailingDisk, is_refused: bool
) -> None:
    disk.is_full = is_refused
    confirming.send(persistent("d"))
    step = bench.begin_sync()
    assert step is not None
    confirming.connection.lose_socket("gone")
    step.run()
    bench.complete_sync(step)
    assert octets_of(confirming.output) == b""
    assert bench.broker.vhosts["/"].queues["d"].ready_count == (0 if is_refused else 1)
    disk.is_full = False


def test_a_refused_message_is_nacked_and_those_around_it_are_not(
    bench: Bench, confirming: ConnectionPair, disk: FailingDisk
) -> None:
    disk.is_full = True
    confirming.send(publish("q"), persistent("d"), persistent("d"), publish("q"))
    bench.sync()
    assert answers(confirming) == ["ack 1", "nack 3 multiple", "ack 4"]
    disk.is_full = False


def test_numbers_answered_ahead_are_not_answered_again_by_a_nack(
    bench: Bench, confirming: ConnectionPair, disk: FailingDisk
) -> None:
    disk.is_full = True
    confirming.send(persistent("d"), publish("q"))
    assert answers(confirming) == ["ack 2"]
    bench.sync()
    assert answers(confirming) == ["nack 1"]
    confirming.send(publish("q"))
    assert answers(confirming) == ["ack 3"]
    disk.is_full = False


# -- any cut ------------------------------------------------------------------


def test_every_cut_of_a_stream_of_publishes_gives_the_same_answers(
    bench: Bench, confirming: ConnectionPair
) -> None:
    data = publish("q", b"a" * 5) + persistent("d") + publish("nowhere", mandatory=True)
    consumer = bench.connect()
    consumer.consume("q", no_ack=True)
    before = 0
    for cut in range(1, len(data)):
        confirming.send_in_pieces(data, cut)
        bench.sync()
        taken = confirming.take()
        assert [
            body
            for _, _, body in contents(
                [frame for frame in taken if frame.kind != 1 or is_return(frame)],
                commands.Basic.Return,
            )
        ] == [b""]
        numbers = sorted(settled(taken, before))
        assert numbers == [before + 1, before + 2, before + 3]
        before += 3
        assert consumer.deliveries() == [b"a" * 5]


def is_return(received: ReceivedFrame) -> bool:
    return isinstance(received.method, commands.Basic.Return)


def settled(frames: list[ReceivedFrame], before: int) -> set[int]:
    """The numbers above `before` that the acks among the frames speak for."""
    numbers: set[int] = set()
    for received in frames:
        if received.kind == 1 and isinstance(received.method, commands.Basic.Ack):
            tag = received.method.delivery_tag or 0
            first = before + 1 if received.method.multiple else tag
            assert not numbers & {tag}
            numbers |= set(range(first, tag + 1))
    return numbers
