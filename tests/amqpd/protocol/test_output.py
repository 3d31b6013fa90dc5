"""Output: one write a turn, marks, and large bodies that are shared and cut."""

import sys

import pytest
from pamqp import commands

from amqpd.broker.queues.queue import Queue
from amqpd.protocol.output import (
    BURST_MARK,
    CONSUMERS_MARK,
    READING_MARK,
    SLICE_SIZE,
    SPARE_SIZE_MAX,
    SPARE_WRITERS_MAX,
    WOKEN_MAX,
    Output,
    OutputQueue,
)
from tests.support.connection_pair import (
    Bench,
    ConnectionPair,
    cut,
    method,
    octets_of,
)
from tests.support.content import frame, publish
from tests.support.deliveries import ConsumingChannel, message_of

ONE_BODY = 300_000


@pytest.fixture
def outputs() -> OutputQueue:
    return OutputQueue()


@pytest.fixture
def output(outputs: OutputQueue) -> Output:
    return Output(outputs)


@pytest.fixture
def queue(bench: Bench) -> Queue:
    dispatch, pager = bench.broker.dispatch, bench.broker.pager
    return Queue(1, "q", "/", False, False, None, {}, b"", dispatch, pager)


def frames_of_slices(outputs: OutputQueue, output: Output) -> list[list[int]]:
    """Take slice after slice; the sizes of the payloads in each."""
    slices = []
    while outputs.has_work():
        outputs.take_dirty()
        frames, rest = cut(octets_of(output))
        assert not rest
        slices.append([len(frame.payload) for frame in frames])
    return slices


# -- small things -------------------------------------------------------------


def test_what_is_written_in_a_turn_leaves_in_one_piece(output: Output) -> None:
    output.writer().write(b"one")
    output.writer().write(b"two")
    assert octets_of(output) == b"onetwo"
    assert octets_of(output) == b""


def test_what_is_inserted_stands_where_it_was_written(output: Output) -> None:
    output.insert(b"first")
    output.writer().write(b"one")
    output.insert(b"second")
    output.insert(b"third")
    output.writer().write(b"two")
    assert output.size() == len(b"firstonesecondthirdtwo")
    assert octets_of(output) == b"firstonesecondthirdtwo"
    assert output.size() == 0
    output.writer().write(b"three")
    assert octets_of(output) == b"three"


def test_what_is_inserted_stays_before_a_large_body(output: Output) -> None:
    output.insert(b"content")
    output.send_body(1, bytes(10))
    assert octets_of(output) == b"content" + frame(3, 1, bytes(10))
    assert output.size() == 0


def test_a_writer_that_was_large_before_a_content_is_not_kept(
    outputs: OutputQueue, output: Output
) -> None:
    output.writer().write(bytes(SPARE_SIZE_MAX + 1))
    large = output.writer()
    output.insert(b"content")
    octets_of(output)
    assert outputs.lend() is not large
    output.insert(b"content")
    small = output.writer()
    octets_of(output)
    assert outputs.lend() is small


def test_nothing_that_was_inserted_leaves_a_closed_output(output: Output) -> None:
    output.insert(b"content")
    output.close()
    assert output.size() == 0


def test_an_output_is_dirty_once_until_it_is_taken(
    outputs: OutputQueue, output: Output
) -> None:
    assert not outputs.has_work()
    output.writer().write(b"one")
    output.writer().write(b"two")
    assert outputs.has_work()
    assert outputs.take_dirty() == [output]
    assert not outputs.has_work()
    output.writer().write(b"three")
    assert outputs.take_dirty() == [output]


def test_what_was_put_off_is_first_and_once(outputs: OutputQueue) -> None:
    first, second, third, fourth = (Output(outputs) for _ in range(4))
    for one in (first, second, third):
        one.writer().write(b"early")
    assert outputs.take_dirty() == [first, second, third]
    fourth.writer().write(b"late")
    third.writer().write(b"late")
    outputs.put_off([second, third])
    assert outputs.has_work()
    assert outputs.take_dirty() == [second, fourth, third]
    assert not any(one.is_dirty for one in (first, second, third, fourth))


def test_octets_that_left_are_counted(output: Output) -> None:
    output.writer().write(b"one")
    octets_of(output)
    output.send_body(1, bytes(ONE_BODY))
    taken = len(octets_of(output))
    assert output.sent == 3 + taken


def test_a_writer_is_used_again_and_empty_then(outputs: OutputQueue) -> None:
    first, second = Output(outputs), Output(outputs)
    writer = first.writer()
    writer.write(b"first")
    octets_of(first)
    assert second.writer() is writer
    second.writer().write(b"second")
    assert octets_of(second) == b"second"


def test_few_writers_are_kept_and_no_large_one(outputs: OutputQueue) -> None:
    lent = [outputs.lend() for _ in range(SPARE_WRITERS_MAX + 1)]
    large = outputs.lend()
    outputs.give_back(large, SPARE_SIZE_MAX + 1)
    for writer in lent:
        outputs.give_back(writer, SPARE_SIZE_MAX)
    again = [outputs.lend() for _ in range(SPARE_WRITERS_MAX + 1)]
    assert [writer in lent for writer in again] == [True] * SPARE_WRITERS_MAX + [False]
    assert large not in again


# -- large bodies -------------------------------------------------------------


def test_a_large_body_stands_between_what_was_written_before_and_after(
    outputs: OutputQueue, output: Output
) -> None:
    body = bytes(range(256)) * 4096
    before, after = (method(1, commands.Basic.CancelOk(tag)) for tag in "ba")
    output.writer().write(before)
    output.send_body(7, body)
    output.writer().write(after)
    taken = b""
    while outputs.has_work():
        outputs.take_dirty()
        taken += octets_of(output)
    frames, rest = cut(taken)
    assert not rest
    assert [frames[0].channel, frames[-1].channel] == [1, 1]
    assert taken.startswith(before)
    assert taken.endswith(after)
    assert {frame.channel for frame in frames[1:-1]} == {7}
    assert {frame.kind for frame in frames[1:-1]} == {3}
    assert b"".join(frame.payload for frame in frames[1:-1]) == body


def test_two_large_bodies_keep_their_order(
    outputs: OutputQueue, output: Output
) -> None:
    output.send_body(1, b"a" * ONE_BODY)
    output.send_body(2, b"b" * ONE_BODY)
    channels: list[int] = []
    while outputs.has_work():
        outputs.take_dirty()
        channels += [frame.channel for frame in cut(octets_of(output))[0]]
    assert channels == sorted(channels)
    assert set(channels) == {1, 2}


def test_a_large_body_leaves_a_slice_a_turn_in_frames_that_fit(
    outputs: OutputQueue, output: Output
) -> None:
    output.frame_max = 100_008
    output.send_body(1, bytes(650_000))
    slices = frames_of_slices(outputs, output)
    # A slice ends with the frame that fills it.
    assert slices == [[100_000] * 3, [100_000] * 3, [50_000]]
    assert SLICE_SIZE <= 3 * 100_000


def test_a_body_that_ends_with_a_slice_needs_no_other(
    outputs: OutputQueue, output: Output
) -> None:
    output.frame_max = 100_008
    output.send_body(1, bytes(300_000))
    assert frames_of_slices(outputs, output) == [[100_000] * 3]
    assert octets_of(output) == b""


def test_the_size_goes_down_slice_by_slice_to_nothing(
    outputs: OutputQueue, output: Output
) -> None:
    output.writer().write(b"before")
    output.send_body(1, bytes(600_000))
    output.writer().write(b"behind")
    assert output.size() == 600_012
    outputs.take_dirty()
    payload = sum(len(frame.payload) for frame in cut(octets_of(output)[6:])[0])
    # Some pieces stand in line bare now, but none twice.
    assert output.size() == 600_006 - payload
    while outputs.has_work():
        outputs.take_dirty()
        octets_of(output)
    assert output.size() == 0


def test_ten_outputs_share_one_large_body() -> None:
    body = bytes(SLICE_SIZE * 4)
    count = sys.getrefcount(body)
    lines = [Output(OutputQueue()) for _ in range(10)]
    for output in lines:
        output.send_body(1, body)
    assert sys.getrefcount(body) == count + 10


# -- marks --------------------------------------------------------------------


def test_the_transports_octets_count(output: Output) -> None:
    output.in_transport = CONSUMERS_MARK - 1
    assert output.has_room()
    output.writer().write(b"x")
    assert not output.has_room()
    assert output.size() == CONSUMERS_MARK


def test_the_marks_are_at_256_kib_and_4_mib(output: Output) -> None:
    output.in_transport = 262_143
    assert (output.has_room(), output.may_read()) == (True, True)
    output.in_transport = 262_144
    assert (output.has_room(), output.may_read()) == (False, True)
    output.in_transport = 4_194_303
    assert output.may_read()
    output.in_transport = 4_194_304
    assert not output.may_read()
    assert READING_MARK == 4_194_304


def test_a_large_body_in_line_leaves_no_room(output: Output) -> None:
    output.send_body(1, bytes(BURST_MARK))
    assert not output.has_room()


def test_who_has_taken_all_that_was_written_has_more_room(output: Output) -> None:
    output.writer().write(bytes(BURST_MARK - 1))
    assert output.has_room()
    output.in_transport = 1
    assert not output.has_room()
    output.in_transport = 0
    output.writer().write(b"1")
    assert not output.has_room()


def test_no_burst_is_sent_to_whom_it_is_forbidden_or_while_memory_is_nearly_short(
    outputs: OutputQueue, output: Output
) -> None:
    output.writer().write(bytes(CONSUMERS_MARK))
    assert output.has_room()
    output.has_bursts = False
    assert not output.has_room()
    output.has_bursts = True
    outputs.has_bursts = False
    assert not output.has_room()


def test_who_waits_for_room_is_offered_when_there_is_some(
    queue: Queue, output: Output
) -> None:
    channel = ConsumingChannel(output=output)
    output.in_transport = CONSUMERS_MARK
    consumer = channel.subscribe(queue, "t")
    queue.publish(message_of(b"one"))
    queue.dispatch(10, 1000)
    assert (consumer.in_ring, consumer.is_waiting) == (False, True)
    output.wake_consumers()
    assert not consumer.in_ring
    output.in_transport = CONSUMERS_MARK - 1
    output.wake_consumers()
    assert (consumer.in_ring, consumer.is_waiting) == (True, False)
    output.wake_consumers()
    queue.dispatch(10, 1000)
    assert channel.take() == [("t", b"one")]


def test_who_waits_already_is_not_put_down_twice(queue: Queue, output: Output) -> None:
    consumer = ConsumingChannel(output=output).subscribe(queue, "t")
    output.wait_for_room(consumer)
    output.wait_for_room(consumer)
    queue.remove_consumer(consumer)
    output.wake_consumers()
    assert not consumer.is_waiting


def test_of_many_who_wait_those_who_came_first_are_offered_room_first(
    queue: Queue, outputs: OutputQueue, output: Output
) -> None:
    channel = ConsumingChannel(output=output)
    count = 2 * WOKEN_MAX + 1
    consumers = [channel.subscribe(queue, f"t{at}") for at in range(count)]
    output.in_transport = CONSUMERS_MARK
    queue.publish(message_of(b"one"))
    queue.dispatch(10, 1000)
    output.in_transport = 0
    offered = []
    output.wake_consumers()
    while outputs.has_work():
        offered.append([consumer.in_ring for consumer in consumers].count(True))
        outputs.take_dirty()
        assert octets_of(output) == b""
        output.wake_consumers()
        assert consumers[0].in_ring
    assert offered == [WOKEN_MAX, 2 * WOKEN_MAX]
    assert all(consumer.in_ring for consumer in consumers)


# -- answers ------------------------------------------------------------------


def test_answers_are_asked_for_with_the_write_and_leave_with_it(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
    bench.outputs.take_dirty()
    pair.send(publish("nowhere"), publish("nowhere"))
    assert bench.outputs.take_dirty() == [pair.output]
    frames, _ = cut(octets_of(pair.output))
    assert [frame.method.name for frame in frames] == ["Basic.Ack"]
    # The write that took the answers is the only one they need.
    assert not bench.outputs.has_work()
    assert octets_of(pair.output) == b""
    # And the next one is asked for again.
    pair.send(publish("nowhere"))
    assert bench.outputs.take_dirty() == [pair.output]
    assert octets_of(pair.output) == method(1, commands.Basic.Ack(3, False))


def test_whoever_has_answered_is_not_held_on_to(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
    publishing = pair.connection.channels[1].publishing
    count = sys.getrefcount(publishing)
    for _ in range(5):
        pair.send(publish("nowhere"))
        pair.take()
    assert sys.getrefcount(publishing) == count


def test_answers_stand_behind_what_was_written_before(
    bench: Bench, pair: ConnectionPair
) -> None:
    pair.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
    pair.send(publish("nowhere"), method(1, commands.Basic.Qos()))
    frames, _ = cut(octets_of(pair.output))
    assert [frame.method.name for frame in frames] == ["Basic.QosOk", "Basic.Ack"]


# -- the end ------------------------------------------------------------------


def test_a_closed_output_has_nothing_left(queue: Queue, output: Output) -> None:
    consumer = ConsumingChannel(output=output).subscribe(queue, "t")
    output.writer().write(b"lost")
    output.send_body(1, bytes(ONE_BODY))
    output.writer().write(b"lost")
    output.wait_for_room(consumer)
    output.close()
    assert output.is_closed
    assert output.size() == 0
    assert octets_of(output) == b""
    queue.remove_consumer(consumer)
    output.wake_consumers()
    assert consumer.is_waiting
