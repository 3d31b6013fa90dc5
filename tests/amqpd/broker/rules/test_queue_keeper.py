"""The rules of a queue: lengths, times to live, dead letters, delivery limits."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from amqpd.broker.queues.delivery import Reference
from amqpd.broker.queues.queue import Queue
from routing.binding import Binding
from tests.support.connection_pair import Bench
from tests.support.content import short_string, string_array, with_headers
from tests.support.deliveries import ConsumingChannel
from tests.support.ruled import RuledQueues, bodies_of, headers_of


@pytest.fixture
def ruled(bench: Bench) -> RuledQueues:
    return RuledQueues(bench)


def get(queue: Queue) -> Reference:
    reference = queue.get(False)
    assert reference is not None
    return reference


def deaths(reference: Reference) -> list[tuple[object, object, object]]:
    entries = headers_of(reference)["x-death"]
    assert isinstance(entries, list)
    return [(entry["queue"], entry["reason"], entry["count"]) for entry in entries]


# -- lengths ------------------------------------------------------------------


def test_the_oldest_go_when_there_are_too_many(ruled: RuledQueues) -> None:
    queue = ruled.make("q", max_length=2)
    ruled.publish(queue, b"1", b"2", b"3", b"4")
    assert queue.ready_count == 2
    assert bodies_of(queue) == [b"3", b"4"]


def test_a_queue_of_no_length_keeps_nothing(ruled: RuledQueues) -> None:
    queue = ruled.make("q", max_length=0)
    ruled.publish(queue, b"1")
    assert queue.ready_count == 0


def test_octets_of_bodies_count_and_nothing_else(ruled: RuledQueues) -> None:
    queue = ruled.make("q", max_length_bytes=10)
    ruled.publish(queue, b"12345", b"67890")
    assert queue.ready_count == 2
    ruled.publish(queue, b"x")
    assert bodies_of(queue) == [b"67890", b"x"]


def test_what_is_unacked_is_not_counted(ruled: RuledQueues) -> None:
    queue = ruled.make("q", max_length=1, max_length_bytes=5)
    ruled.publish(queue, b"12345")
    unacked = get(queue)
    ruled.publish(queue, b"abcde")
    assert queue.ready_count == 1
    queue.requeue(unacked)
    assert bodies_of(queue) == [b"abcde"]


def test_what_consumers_take_at_once_is_never_too_much(ruled: RuledQueues) -> None:
    queue = ruled.make("q", max_length=1)
    channel = ConsumingChannel()
    channel.subscribe(queue, "t", prefetch=3)
    ruled.publish(queue, b"1", b"2", b"3", b"4", b"5")
    assert channel.take() == [("t", b"1"), ("t", b"2"), ("t", b"3")]
    assert bodies_of(queue) == [b"5"]


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_full_queue_refuses(ruled: RuledQueues, overflow: str) -> None:
    queue = ruled.make("q", max_length=2, overflow=overflow)
    ruled.publish(queue, b"1", b"2", b"3")
    assert bodies_of(queue) == [b"1", b"2"]


def test_what_is_refused_may_be_a_dead_letter(ruled: RuledQueues) -> None:
    dead = ruled.make("dead")
    queue = ruled.make(
        "q",
        max_length=1,
        overflow="reject-publish-dlx",
        dead_letter_exchange="",
        dead_letter_routing_key="dead",
    )
    ruled.publish(queue, b"1", b"2")
    assert deaths(get(dead)) == [("q", "maxlen", 1)]
    assert bodies_of(queue) == [b"1"]


def test_a_message_that_would_go_round_for_ever_is_dropped_and_told_of_once(
    ruled: RuledQueues, caplog: pytest.LogCaptureFixture
) -> None:
    queue = ruled.make(
        "q", max_length=1, dead_letter_exchange="", dead_letter_routing_key="q"
    )
    ruled.publish(queue, b"1", b"2", b"3")
    assert bodies_of(queue) == [b"3"]
    (told,) = caplog.messages
    assert told == (
        "message dropped: dead letters of queue 'q' in vhost '/' go in circles by way "
        "of queue 'q'"
    )


def test_what_is_dropped_may_be_a_dead_letter(ruled: RuledQueues) -> None:
    dead = ruled.make("dead")
    queue = ruled.make(
        "q", max_length=1, dead_letter_exchange="", dead_letter_routing_key="dead"
    )
    ruled.publish(queue, b"1", b"2", b"3")
    assert bodies_of(dead) == [b"1", b"2"]


# -- times to live ------------------------------------------------------------


def test_messages_expire_to_the_millisecond(ruled: RuledQueues) -> None:
    queue = ruled.make("q", message_ttl=100)
    ruled.publish(queue, b"1")
    ruled.bench.pass_time(50)
    ruled.publish(queue, b"2")
    ruled.bench.pass_time(49)
    assert queue.ready_count == 2
    ruled.bench.pass_time(1)
    assert queue.ready_count == 1
    ruled.bench.pass_time(50)
    assert queue.ready_count == 0


def test_a_message_expires_wherever_it_stands(ruled: RuledQueues) -> None:
    queue = ruled.make("q")
    ruled.publish(queue, b"1")
    ruled.publish(queue, b"2", ttl_ms=10)
    ruled.publish(queue, b"3", ttl_ms=1000)
    ruled.publish(queue, b"4", ttl_ms=5)
    ruled.bench.pass_time(0)
    ruled.bench.pass_time(5)
    assert queue.ready_count == 3
    ruled.bench.pass_time(5)
    assert queue.ready_count == 2
    assert bodies_of(queue) == [b"1", b"3"]


def test_the_shorter_time_counts(ruled: RuledQueues) -> None:
    queue = ruled.make("q", message_ttl=100)
    ruled.publish(queue, b"1", ttl_ms=1000)
    ruled.publish(queue, b"2", ttl_ms=10)
    ruled.bench.pass_time(0)
    ruled.bench.pass_time(10)
    assert queue.ready_count == 1
    ruled.bench.pass_time(90)
    assert queue.ready_count == 0


def test_nothing_is_delivered_after_its_time(ruled: RuledQueues) -> None:
    queue = ruled.make("q")
    ruled.publish(queue, b"1", b"2", ttl_ms=10)
    ruled.publish(queue, b"3")
    ruled.bench.now_ms += 10
    ruled.bench.broker.timers.now_ms = ruled.bench.now_ms
    channel = ConsumingChannel()
    channel.subscribe(queue, "t")
    ruled.bench.dispatch()
    assert channel.take() == [("t", b"3")]


def test_requeueing_keeps_the_deadline(ruled: RuledQueues) -> None:
    queue = ruled.make("q", message_ttl=100)
    ruled.publish(queue, b"1")
    unacked = get(queue)
    ruled.bench.pass_time(60)
    queue.requeue(unacked)
    assert queue.ready_count == 1
    ruled.bench.pass_time(40)
    assert queue.ready_count == 0


def test_what_comes_back_late_has_expired(ruled: RuledQueues) -> None:
    queue = ruled.make("q")
    ruled.publish(queue, b"1", ttl_ms=10)
    unacked = get(queue)
    ruled.bench.pass_time(20)
    assert queue.unacked_count == 1
    queue.requeue(unacked)
    assert (queue.ready_count, int(queue.unacked_count)) == (0, 0)


@pytest.mark.parametrize("table", [{"message_ttl": 0}, {}])
def test_without_any_time_it_is_now_or_never(
    ruled: RuledQueues, table: dict[str, object]
) -> None:
    queue = ruled.make("q", **table)
    ruled.publish(queue, b"1", ttl_ms=0)
    assert queue.ready_count == 0
    channel = ConsumingChannel()
    channel.subscribe(queue, "t", prefetch=1)
    ruled.publish(queue, b"2", b"3", ttl_ms=0)
    assert channel.take() == [("t", b"2")]
    assert queue.ready_count == 0


def test_thousands_expire_in_several_turns(ruled: RuledQueues) -> None:
    queue = ruled.make("q", message_ttl=10)
    ruled.publish(queue, *[b"x"] * 1000)
    ruled.bench.pass_time(10)
    assert 0 < queue.ready_count < 1000
    for _ in range(10):
        ruled.bench.pass_time(1)
    assert queue.ready_count == 0


def test_expired_ones_are_dead_letters_without_a_deadline(ruled: RuledQueues) -> None:
    dead = ruled.make("dead")
    queue = ruled.make(
        "q", dead_letter_exchange="", dead_letter_routing_key="dead", message_ttl=50
    )
    ruled.publish(queue, b"1")
    ruled.publish(queue, b"2", ttl_ms=10)
    ruled.bench.pass_time(0)
    ruled.bench.pass_time(10)
    ruled.bench.pass_time(40)
    ruled.bench.pass_time(5000)
    assert bodies_of(dead) == [b"2", b"1"]


def test_a_purged_queue_forgets_deadlines(ruled: RuledQueues) -> None:
    queue = ruled.make("q")
    ruled.publish(queue, b"1", ttl_ms=10)
    queue.purge()
    ruled.publish(queue, b"2")
    ruled.bench.pass_time(20)
    assert bodies_of(queue) == [b"2"]


# -- dead letters -------------------------------------------------------------


def test_a_rejected_message_tells_its_story(ruled: RuledQueues) -> None:
    dead = ruled.make("dead")
    queue = ruled.make("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    ruled.publish(queue, b"1")
    queue.reject(get(queue))
    reference = get(dead)
    assert reference.message.address == b"\x00\x04dead\xce"
    told = headers_of(reference)
    assert told.pop("x-death") == [
        {
            "count": 1,
            "reason": "rejected",
            "queue": "q",
            "time": told_time(ruled.bench.now_ms),
            "exchange": "",
            "routing-keys": ["q"],
        }
    ]
    assert told == {
        "x-first-death-reason": "rejected",
        "x-first-death-queue": "q",
        "x-first-death-exchange": "",
        "x-last-death-reason": "rejected",
        "x-last-death-queue": "q",
        "x-last-death-exchange": "",
    }


def told_time(now_ms: int) -> datetime:
    return datetime.fromtimestamp(now_ms // 1000, UTC)


def test_a_message_goes_by_the_keys_that_it_had(ruled: RuledQueues) -> None:
    topology = ruled.topology
    own, copied = ruled.make("own"), ruled.make("copied")
    queue = ruled.make("q", dead_letter_exchange="amq.direct")
    for name, key in (("own", b"k"), ("copied", b"c")):
        topology.router.bind(Binding("amq.direct", name, False, key, {}, b""))
    properties = with_headers(string_array("CC", "c"))
    queue.publish(ruled.message(b"x", properties, key="k"))
    queue.reject(get(queue))
    assert headers_of(get(copied))["CC"] == ["c"]
    reference = get(own)
    entries = headers_of(reference)["x-death"]
    assert isinstance(entries, list)
    assert entries[0]["routing-keys"] == ["k", "c"]


def test_a_key_for_dead_letters_takes_cc_away(ruled: RuledQueues) -> None:
    dead, other = ruled.make("dead"), ruled.make("other")
    queue = ruled.make("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    queue.publish(ruled.message(b"x", with_headers(string_array("CC", "other"))))
    queue.reject(get(queue))
    assert "CC" not in headers_of(get(dead))
    assert other.ready_count == 0


def test_the_expiration_goes_into_the_story(ruled: RuledQueues) -> None:
    dead = ruled.make("dead")
    queue = ruled.make("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    properties = b"\x01\x00" + short_string("50")
    queue.publish(ruled.message(b"x", properties, ttl_ms=50))
    ruled.bench.pass_time(0)
    ruled.bench.pass_time(50)
    reference = get(dead)
    entries = headers_of(reference)["x-death"]
    assert isinstance(entries, list)
    assert entries[0]["original-expiration"] == "50"
    assert reference.message.expires_ms == 0
    assert reference.message.content[7 + 12 : 7 + 14] == b"\x20\x00"


def test_a_missing_exchange_drops_without_a_word(ruled: RuledQueues) -> None:
    queue = ruled.make("q", dead_letter_exchange="nowhere")
    ruled.publish(queue, b"1")
    queue.reject(get(queue))
    assert (queue.ready_count, int(queue.unacked_count)) == (0, 0)


def test_neither_purging_nor_deleting_makes_dead_letters(ruled: RuledQueues) -> None:
    dead = ruled.make("dead")
    queue = ruled.make("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    ruled.publish(queue, b"1")
    queue.purge()
    ruled.publish(queue, b"2")
    ruled.topology.delete_queue_now(queue)
    assert dead.ready_count == 0


def test_expiring_messages_do_not_go_round_for_ever(ruled: RuledQueues) -> None:
    first = ruled.make(
        "a", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="b"
    )
    second = ruled.make(
        "b", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="a"
    )
    ruled.publish(first, b"x")
    for _ in range(4):
        ruled.bench.pass_time(10)
    assert (first.ready_count, second.ready_count) == (0, 0)


def test_rejecting_lets_a_message_go_round(ruled: RuledQueues) -> None:
    work = ruled.make("work", dead_letter_exchange="", dead_letter_routing_key="wait")
    ruled.make(
        "wait", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="work"
    )
    ruled.publish(work, b"x")
    for count in (1, 2, 3):
        work.reject(get(work))
        ruled.bench.pass_time(0)
        ruled.bench.pass_time(10)
        reference = get(work)
        assert deaths(reference) == [
            ("wait", "expired", count),
            ("work", "rejected", count),
        ]
        work.requeue(reference)


def test_dead_letters_may_overflow_another_queue(ruled: RuledQueues) -> None:
    last = ruled.make("last")
    ruled.make(
        "dead", max_length=1, dead_letter_exchange="", dead_letter_routing_key="last"
    )
    queue = ruled.make(
        "q", max_length=1, dead_letter_exchange="", dead_letter_routing_key="dead"
    )
    ruled.publish(queue, b"1", b"2", b"3")
    reference = get(last)
    assert deaths(reference) == [("dead", "maxlen", 1), ("q", "maxlen", 1)]
    assert headers_of(reference)["x-first-death-queue"] == "q"
    assert headers_of(reference)["x-last-death-queue"] == "dead"


# -- delivery limits ----------------------------------------------------------


def test_returns_are_counted_and_told(ruled: RuledQueues) -> None:
    queue = ruled.make("q", delivery_limit=2)
    ruled.publish(queue, b"1")
    reference = get(queue)
    assert "x-delivery-count" not in headers_of(reference)
    for count in (1, 2):
        queue.requeue(reference)
        reference = get(queue)
        assert headers_of(reference)["x-delivery-count"] == count
    queue.requeue(reference)
    assert (queue.ready_count, int(queue.unacked_count)) == (0, 0)


def test_one_return_too_many_makes_a_dead_letter(ruled: RuledQueues) -> None:
    dead = ruled.make("dead")
    queue = ruled.make(
        "q", delivery_limit=0, dead_letter_exchange="", dead_letter_routing_key="dead"
    )
    ruled.publish(queue, b"1")
    queue.requeue(get(queue))
    reference = get(dead)
    assert deaths(reference) == [("q", "delivery_limit", 1)]
    assert "x-delivery-count" not in headers_of(reference)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_without_a_limit_nothing_is_ever_dropped(ruled: RuledQueues, kind: str) -> None:
    dead = ruled.make("dead")
    for more in ({}, {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}):
        queue = ruled.make("q", queue_type=kind, **more)
        ruled.publish(queue, b"1")
        for _ in range(100):
            queue.requeue(get(queue), True)
        assert queue.ready_count == 1
        ruled.topology.delete_queue_now(queue)
    assert dead.ready_count == 0


def test_a_limit_below_zero_is_none(ruled: RuledQueues) -> None:
    queue = ruled.make("q", delivery_limit=-1)
    ruled.publish(queue, b"1")
    for _ in range(30):
        queue.requeue(get(queue))
    assert queue.ready_count == 1


def test_a_quorum_queue_counts_without_a_limit(ruled: RuledQueues) -> None:
    queue = ruled.make("q", queue_type="quorum")
    ruled.publish(queue, b"1")
    queue.requeue(get(queue))
    assert headers_of(get(queue))["x-delivery-count"] == 1


def test_names_that_nothing_can_have_lead_nowhere(ruled: RuledQueues) -> None:
    for table in (
        {"dead_letter_exchange": "", "dead_letter_routing_key": "k" * 256},
        {"dead_letter_exchange": "x" * 256},
    ):
        queue = ruled.make("q", **table)
        ruled.publish(queue, b"1")
        queue.reject(get(queue))
        assert int(queue.unacked_count) == 0
        ruled.topology.delete_queue_now(queue)


# -- with priorities ----------------------------------------------------------


def publish_at(ruled: RuledQueues, queue: Queue, *priorities: int) -> None:
    """Publish a message at each priority; its body is the priority."""
    for priority in priorities:
        properties = b"\x08\x00" + bytes([priority])
        queue.publish(ruled.message(b"%d" % priority, properties, key=queue.name))
        ruled.surroundings.keepers.run()


def test_levels_are_too_long_together_and_the_first_to_be_delivered_goes(
    ruled: RuledQueues,
) -> None:
    dead = ruled.make("dead")
    queue = ruled.make(
        "q",
        max_priority=9,
        max_length=2,
        dead_letter_exchange="",
        dead_letter_routing_key="dead",
    )
    publish_at(ruled, queue, 0, 5, 3)
    assert queue.ready_count == 2
    assert bodies_of(dead) == [b"5"]
    assert bodies_of(queue) == [b"3", b"0"]


def test_messages_of_every_level_expire(ruled: RuledQueues) -> None:
    queue = ruled.make("q", max_priority=9, message_ttl=50)
    publish_at(ruled, queue, 0, 5, 9)
    ruled.bench.pass_time(50)
    assert queue.ready_count == 0


def test_a_rejected_message_of_a_level_is_a_dead_letter(ruled: RuledQueues) -> None:
    dead = ruled.make("dead")
    queue = ruled.make(
        "q", max_priority=9, dead_letter_exchange="", dead_letter_routing_key="dead"
    )
    publish_at(ruled, queue, 5)
    reference = get(queue)
    reference.queue.reject(reference)
    assert (queue.ready_count, int(queue.unacked_count)) == (0, 0)
    assert deaths(get(dead)) == [("q", "rejected", 1)]


def test_a_full_queue_of_levels_refuses(ruled: RuledQueues) -> None:
    queue = ruled.make(
        "q", max_priority=9, max_length_bytes=5, overflow="reject-publish"
    )
    publish_at(ruled, queue, 9, 1)
    ruled.publish(queue, b"1234", b"123")
    assert bodies_of(queue) == [b"9", b"1", b"123"]


def test_returns_of_every_level_are_counted(ruled: RuledQueues) -> None:
    queue = ruled.make("q", max_priority=9, delivery_limit=1)
    publish_at(ruled, queue, 5)
    reference = get(queue)
    reference.queue.requeue(reference)
    reference = get(queue)
    assert headers_of(reference)["x-delivery-count"] == 1
    reference.queue.requeue(reference)
    assert (queue.ready_count, int(queue.unacked_count)) == (0, 0)
