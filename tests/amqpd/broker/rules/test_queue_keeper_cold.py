"""Rules of queues whose messages are not in memory, and after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import commands

from amqpd.broker.messages.message import Message
from amqpd.broker.queues.survey import RETRY_MS, SLICE_COUNT
from store.cold_deadlines import DeadlineRead
from tests.support.content import PERSISTENT_PROPERTIES
from tests.support.deliveries import ConsumingChannel
from tests.support.place import Place
from tests.support.ruled import RuledQueues, bodies_of, headers_of


@pytest.fixture
def place(fast_path: Path) -> Iterator[Place]:
    place = Place(fast_path / "d")
    yield place
    place.bench.close()


@pytest.mark.parametrize("is_persistent", [True, False])
def test_cold_messages_expire_within_a_second(
    place: Place, is_persistent: bool
) -> None:
    queue = place.declare("q")
    place.publish(queue, b"1", is_persistent=is_persistent)
    place.publish(queue, b"2", ttl_ms=500, is_persistent=is_persistent)
    place.publish(queue, b"3", is_persistent=is_persistent)
    place.page_out(queue)
    place.bench.pass_time(0)
    place.bench.pass_time(1500)
    assert queue.ready_count == 2
    assert bodies_of(queue) == [b"1", b"3"]
    assert queue.ready_count == 0


@pytest.mark.parametrize("is_persistent", [True, False])
def test_cold_messages_that_expire_are_read_to_be_dead_letters(
    place: Place, is_persistent: bool
) -> None:
    dead = place.declare("dead")
    queue = place.declare("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    place.publish(queue, b"1", is_persistent=is_persistent)
    place.publish(queue, b"2", ttl_ms=500, is_persistent=is_persistent)
    place.page_out(queue)
    place.bench.pass_time(0)
    place.bench.pass_time(1500)
    assert queue.ready_count == 1
    assert bodies_of(dead) == [b"2"]


def test_a_cold_front_is_read_to_see_whether_it_has_expired(place: Place) -> None:
    queue = place.declare("q", message_ttl=1000)
    place.publish(queue, b"1", b"2")
    place.page_out(queue)
    place.bench.pass_time(0)
    place.bench.pass_time(999)
    assert queue.ready_count == 2
    place.bench.pass_time(1)
    place.bench.pass_time(0)
    assert queue.ready_count == 0


def test_after_a_restart_a_queue_with_a_time_to_live_goes_on(place: Place) -> None:
    dead = place.declare("dead")
    queue = place.declare(
        "q", message_ttl=1000, dead_letter_exchange="", dead_letter_routing_key="dead"
    )
    place.publish(queue, b"1")
    place.bench.pass_time(600)
    place.publish(queue, b"2")
    place.restart()
    queue, dead = place.queue("q"), place.queue("dead")
    assert queue.ready_count == 2
    place.bench.pass_time(400)
    place.bench.pass_time(0)
    assert (queue.ready_count, dead.ready_count) == (1, 1)
    place.bench.pass_time(600)
    place.bench.pass_time(0)
    assert bodies_of(dead) == [b"1", b"2"]


def test_nothing_is_delivered_after_its_time_after_a_restart(place: Place) -> None:
    queue = place.declare("q")
    place.publish(queue, b"1", ttl_ms=100)
    place.publish(queue, b"2")
    place.restart()
    place.bench.pass_time(200)
    assert bodies_of(place.queue("q")) == [b"2"]


def test_drop_head_takes_what_is_cold(place: Place) -> None:
    dead = place.declare("dead")
    queue = place.declare(
        "q", max_length=3, dead_letter_exchange="", dead_letter_routing_key="dead"
    )
    place.publish(queue, b"1", b"2", b"3")
    place.page_out(queue)
    place.publish(queue, b"4", b"5")
    assert bodies_of(dead) == [b"1", b"2"]
    assert bodies_of(queue) == [b"3", b"4", b"5"]


def test_octets_of_bodies_are_counted_when_they_are_cold(place: Place) -> None:
    queue = place.declare("q", max_length_bytes=10)
    place.publish(queue, b"12345", b"67890")
    place.page_out(queue)
    place.publish(queue, b"x")
    assert queue.ready_count == 2
    assert bodies_of(queue) == [b"67890", b"x"]


def test_returns_are_counted_across_restarts(place: Place) -> None:
    queue = place.declare("q", delivery_limit=2)
    place.publish(queue, b"1")
    place.bench.sync()
    for count in (1, 2):
        queue = place.queue("q")
        reference = queue.get(False)
        assert reference is not None
        queue.requeue(reference)
        place.bench.sync()
        place.restart()
        queue = place.queue("q")
        reference = queue.get(False)
        assert reference is not None
        assert headers_of(reference)["x-delivery-count"] == count
        queue.take_back(reference)
        queue.unacked_count -= 1
    reference = place.queue("q").get(False)
    assert reference is not None
    place.queue("q").requeue(reference)
    assert place.queue("q").ready_count == 0


def test_a_full_disk_leaves_dead_letters_where_they_are(place: Place) -> None:
    dead = place.declare("dead")
    queue = place.declare("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    place.publish(queue, b"1")
    place.bench.sync()
    reference = queue.get(False)
    assert reference is not None
    place.disk.is_full = True
    queue.reject(reference)
    place.bench.sync()
    place.disk.is_full = False
    assert (queue.ready_count, dead.ready_count) == (1, 0)
    place.restart()
    assert bodies_of(place.queue("q")) == [b"1"]
    assert bodies_of(place.queue("dead")) == []


def test_what_expires_while_the_disk_is_full_waits_and_is_not_delivered(
    place: Place,
) -> None:
    dead = place.declare("dead")
    queue = place.declare(
        "q", message_ttl=100, dead_letter_exchange="", dead_letter_routing_key="dead"
    )
    place.publish(queue, b"1")
    place.bench.sync()
    place.disk.is_full = True
    place.bench.pass_time(0)
    place.bench.pass_time(100)
    place.bench.sync()
    assert (queue.ready_count, dead.ready_count) == (1, 0)
    assert queue.get(False) is None
    place.disk.is_full = False
    for _ in range(5):
        place.bench.pass_time(10_000)
        place.bench.sync()
    assert bodies_of(dead) == [b"1"]
    assert queue.ready_count == 0


def test_what_expired_is_not_read_back_before_the_log_knows(place: Place) -> None:
    dead = place.declare("dead")
    queue = place.declare("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    place.publish(queue, b"1")
    place.publish(queue, b"2", ttl_ms=50)
    place.publish(queue, b"3")
    place.bench.sync()
    place.bench.pass_time(0)
    place.bench.pass_time(50)
    place.bench.page_out()
    assert not queue.has_memory()
    assert queue.ready_count == 2
    assert bodies_of(queue) == [b"1", b"3"]
    assert queue.ready_count == 0
    assert bodies_of(dead) == [b"2"]


def test_a_window_whose_messages_expire_while_it_is_read_is_empty(place: Place) -> None:
    queue = place.declare("q")
    place.publish(queue, b"1", b"2", ttl_ms=500)
    place.page_out(queue)
    channel = ConsumingChannel()
    channel.subscribe(queue, "t")
    place.bench.dispatch()
    pager = place.bench.broker.pager
    (load,) = pager.begin_loads(place.bench.now_ms)
    load.run()
    place.bench.now_ms += 2000
    timers = place.bench.broker.timers
    timers.on_time(place.bench.now_ms)
    timers.on_time(place.bench.now_ms)
    assert queue.ready_count == 0
    pager.complete_load(load, place.bench.now_ms)
    place.publish(queue, b"3")
    place.bench.turn()
    assert channel.take() == [("t", b"3")]
    assert queue.ready_count == 0


# -- after a restart -----------------------------------------------------------


@pytest.mark.parametrize("has_exchange", [False, True])
def test_after_a_restart_cold_messages_expire_where_they_stand(
    place: Place, has_exchange: bool
) -> None:
    table = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}
    place.declare("dead")
    queue = place.declare("q", **(table if has_exchange else {}))
    place.publish(queue, b"1", b"2")
    place.publish(queue, b"3", ttl_ms=500)
    place.publish(queue, b"4")
    place.publish(queue, b"5", ttl_ms=5000)
    place.restart()
    place.bench.survey()
    queue = place.queue("q")
    place.bench.pass_time(0)
    place.bench.pass_time(1500)
    assert queue.ready_count == 4
    assert not queue.has_memory()
    place.bench.pass_time(5000)
    assert not queue.has_memory()
    assert queue.ready_count == 3
    assert bodies_of(queue) == [b"1", b"2", b"4"]
    assert bodies_of(place.queue("dead")) == ([b"3", b"5"] if has_exchange else [])


def test_what_expired_while_nobody_was_there_goes_at_once(place: Place) -> None:
    queue = place.declare("q")
    place.publish(queue, b"1")
    place.publish(queue, b"2", b"3", ttl_ms=500)
    place.restart()
    place.bench.pass_time(60_000)
    place.bench.survey()
    assert place.queue("q").ready_count == 3
    place.bench.pass_time(0)
    assert place.queue("q").ready_count == 1


def test_what_was_settled_before_the_restart_does_not_expire_again(
    place: Place,
) -> None:
    queue = place.declare("q")
    place.publish(queue, b"1")
    place.publish(queue, b"2", b"3", ttl_ms=500)
    place.publish(queue, b"4")
    place.bench.sync()
    first, second = queue.get(False), queue.get(False)
    assert first is not None
    assert second is not None
    queue.settle(second)
    queue.requeue(first)
    place.restart()
    place.bench.survey()
    queue = place.queue("q")
    assert queue.ready_count == 3
    place.bench.pass_time(0)
    place.bench.pass_time(1500)
    assert queue.ready_count == 2
    assert bodies_of(queue) == [b"1", b"4"]


def test_deadlines_that_come_late_are_of_what_is_still_cold(place: Place) -> None:
    queue = place.declare("q")
    place.publish(queue, b"1", b"2", ttl_ms=500)
    place.restart()
    queue = place.queue("q")
    first = queue.get(False)
    assert first is not None
    assert not queue.ready.cold_count
    place.bench.survey()
    place.bench.pass_time(0)
    place.bench.pass_time(1500)
    assert (queue.ready_count, int(queue.unacked_count)) == (0, 1)
    queue.settle(first)


def test_deadlines_are_found_at_every_level(place: Place) -> None:
    queue = place.declare("q", max_priority=3)
    ruled = RuledQueues(place.bench)
    for priority, ttl_ms in ((3, 500), (0, 500), (3, None)):
        properties = b"\x18\x00\x02" + bytes([priority])
        queue.publish(ruled.message(b"%d" % priority, properties, ttl_ms))
    place.restart()
    place.bench.survey()
    queue = place.queue("q")
    place.bench.pass_time(0)
    place.bench.pass_time(1500)
    assert queue.ready_count == 1
    assert bodies_of(queue) == [b"3"]


def test_deadlines_of_a_queue_that_was_deleted_are_nobodys(place: Place) -> None:
    queue = place.declare("q")
    other = place.declare("other")
    place.publish(queue, b"1", ttl_ms=500)
    place.publish(other, b"2", ttl_ms=500)
    place.restart()
    survey = place.bench.broker.survey
    step = survey.begin(place.bench.now_ms)
    assert step is not None
    assert survey.begin(place.bench.now_ms) is None
    step.run()
    survey.complete(step, place.bench.now_ms)
    assert survey.has_slice
    place.bench.connect().call(
        1, commands.Queue.Delete(0, "q"), commands.Queue.DeleteOk
    )
    place.bench.survey()
    place.bench.pass_time(0)
    place.bench.pass_time(1500)
    assert place.queue("other").ready_count == 0


def test_deadlines_that_cannot_be_read_are_read_later(place: Place) -> None:
    queue = place.declare("q")
    place.publish(queue, b"1", ttl_ms=500)
    place.restart()
    survey = place.bench.broker.survey
    step = survey.begin(place.bench.now_ms)
    assert isinstance(step, DeadlineRead)
    step.error = OSError(5, "not now")
    assert survey.complete(step, place.bench.now_ms) is step.error
    assert survey.has_work
    assert survey.begin(place.bench.now_ms) is None
    place.bench.now_ms += RETRY_MS
    place.bench.survey()
    place.bench.pass_time(0)
    place.bench.pass_time(1500)
    assert place.queue("q").ready_count == 0


def copy_of(message: Message) -> Message:
    copy = Message(
        message.address, message.content, None, message.facts, message.enqueued_ms
    )
    copy.expires_ms = message.expires_ms
    return copy


def test_many_deadlines_are_handed_over_in_slices(place: Place) -> None:
    queue, other = place.declare("q"), place.declare("other")
    count = SLICE_COUNT * 2 // 3
    for one in (queue, other):
        message = RuledQueues(place.bench).message(b"x", PERSISTENT_PROPERTIES, 500)
        for _ in range(count):
            one.publish(copy_of(message))
    place.restart()
    survey = place.bench.broker.survey
    step = survey.begin(place.bench.now_ms)
    assert step is not None
    step.run()
    survey.complete(step, place.bench.now_ms)
    survey.advance()
    assert survey.has_slice
    survey.advance()
    assert not survey.has_slice
    place.bench.survey()
    for _ in range(2 * count):
        place.bench.pass_time(1500)
        if not place.queue("q").ready_count + place.queue("other").ready_count:
            break
    assert place.queue("q").ready_count == place.queue("other").ready_count == 0


# -- too long, unread ----------------------------------------------------------


def test_what_is_too_much_and_cold_is_dropped_unread(place: Place) -> None:
    queue = place.declare("q", max_length=3)
    place.publish(queue, b"1", b"2", b"3")
    place.page_out(queue)
    place.disk.is_unreadable = True
    place.publish(queue, b"4", b"5")
    place.disk.is_unreadable = False
    assert queue.ready_count == 3
    place.restart()
    queue = place.queue("q")
    assert queue.ready_count == 3
    assert bodies_of(queue) == [b"3", b"4", b"5"]
    assert queue.ready_count == 0


def test_what_has_expired_is_not_dropped_once_more(place: Place) -> None:
    queue = place.declare("q", max_length=3)
    place.publish(queue, b"1")
    place.publish(queue, b"2", ttl_ms=500)
    place.publish(queue, b"3")
    place.page_out(queue)
    place.bench.pass_time(0)
    place.bench.pass_time(1500)
    place.publish(queue, b"4", b"5", b"6")
    assert bodies_of(queue) == [b"4", b"5", b"6"]
    assert queue.ready_count == 0


def test_seqs_that_a_log_has_not_are_passed_over(place: Place) -> None:
    queue = place.declare("q", max_length=3)
    place.publish(queue, b"1", b"2", b"3")
    place.bench.sync()
    taken = [queue.get(False) for _ in range(2)]
    assert taken[1] is not None
    queue.settle(taken[1])
    place.restart()
    queue = place.queue("q")
    place.publish(queue, b"4", b"5", b"6")
    assert bodies_of(queue) == [b"4", b"5", b"6"]


def test_transient_messages_that_are_cold_are_read_to_be_dropped(place: Place) -> None:
    queue = place.declare("q", max_length=2)
    place.publish(queue, b"1", is_persistent=False)
    place.publish(queue, b"2")
    place.page_out(queue)
    place.publish(queue, b"3", b"4")
    assert bodies_of(queue) == [b"3", b"4"]


def test_a_window_in_flight_does_not_bring_back_what_was_dropped(place: Place) -> None:
    queue = place.declare("q", max_length=3)
    place.publish(queue, b"1", b"2", b"3")
    place.page_out(queue)
    channel = ConsumingChannel()
    channel.subscribe(queue, "t", prefetch=1)
    place.bench.dispatch()
    pager = place.bench.broker.pager
    (load,) = pager.begin_loads(place.bench.now_ms)
    load.run()
    place.publish(queue, b"4")
    assert queue.ready_count == 3
    pager.complete_load(load, place.bench.now_ms)
    place.bench.turn()
    assert channel.take() == [("t", b"2")]


def test_the_age_of_a_first_that_was_dropped_unread_is_looked_up(place: Place) -> None:
    queue = place.declare("q", max_length=2)
    for body in (b"1", b"2"):
        place.publish(queue, body)
        place.bench.pass_time(100)
    place.page_out(queue)
    now_ms = place.bench.now_ms
    place.publish(queue, b"3")
    first_ms = int(queue.oldest_ready_age(now_ms))
    (look,) = place.bench.broker.pager.begin_loads(now_ms)
    look.run()
    place.bench.broker.pager.complete_load(look, now_ms)
    assert queue.oldest_ready_age(now_ms) == first_ms - 100
    assert place.bench.load() == 0


def test_a_look_at_what_is_dropped_meanwhile_is_better_than_none(place: Place) -> None:
    queue = place.declare("q", max_length=3)
    for body in (b"1", b"2", b"3"):
        place.publish(queue, body)
        place.bench.pass_time(100)
    place.page_out(queue)
    now_ms = place.bench.now_ms
    place.publish(queue, b"4")
    first_ms = int(queue.oldest_ready_age(now_ms))
    (look,) = place.bench.broker.pager.begin_loads(now_ms)
    look.run()
    place.publish(queue, b"5")
    place.bench.broker.pager.complete_load(look, now_ms)
    assert queue.oldest_ready_age(now_ms) == first_ms - 100
    assert place.bench.load() == 1
    assert queue.oldest_ready_age(now_ms) == first_ms - 200


def test_what_expired_while_it_was_cold_does_not_come_back(place: Place) -> None:
    queue = place.declare("q")
    place.publish(queue, b"1", ttl_ms=500)
    place.publish(queue, b"2")
    place.page_out(queue)
    place.bench.pass_time(0)
    place.bench.pass_time(1500)
    place.restart()
    assert place.queue("q").ready_count == 1
