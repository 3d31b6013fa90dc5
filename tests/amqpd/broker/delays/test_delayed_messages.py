"""Where delayed messages go when their delay is over, and what is told of it."""

from __future__ import annotations

import pytest
from pamqp import commands

from tests.support.connection_pair import Bench, contents, method
from tests.support.content import publish, short_string, string_array
from tests.support.delayed import DelayedExchange, delayed_properties
from tests.support.raw_client import channel_closed
from tests.support.ruled import RuledQueues, headers_of


@pytest.fixture
def delayed(bench: Bench) -> DelayedExchange:
    return DelayedExchange(bench)


def test_bindings_count_that_are_there_when_the_delay_is_over(
    delayed: DelayedExchange,
) -> None:
    delayed.publish(b"late binding", 5000, key="r")
    delayed.publish(b"early unbinding", 5000)
    delayed.pair.declare("r", durable=True)
    delayed.bind("r", "r")
    unbind = commands.Queue.Unbind(0, "q", "x", "k")
    delayed.pair.call(1, unbind, commands.Queue.UnbindOk)
    delayed.bench.pass_time(5000)
    assert delayed.bodies("r") == [b"late binding"]
    assert delayed.bodies() == []
    assert delayed.count == 0


def test_what_finds_nobody_is_dropped(delayed: DelayedExchange) -> None:
    delayed.publish(b"nobody", 5000, key="nowhere")
    assert delayed.count == 1
    delayed.bench.pass_time(5000)
    assert delayed.count == 0
    assert not delayed.room.has_memory()


def test_the_alternate_exchange_gets_what_finds_nobody_then(bench: Bench) -> None:
    delayed = DelayedExchange(bench, arguments={"alternate-exchange": "amq.fanout"})
    delayed.pair.declare("r")
    bind = commands.Queue.Bind(0, "r", "amq.fanout", "")
    delayed.pair.call(1, bind, commands.Queue.BindOk)
    delayed.publish(b"nobody", 5000, key="nowhere")
    assert delayed.bodies("r") == []
    bench.pass_time(5000)
    assert delayed.bodies("r") == [b"nobody"]


def test_the_message_tells_of_its_delay_by_the_negative(
    delayed: DelayedExchange,
) -> None:
    delayed.publish(b"later", 5000, more=short_string("a") + b"b\x01")
    delayed.bench.pass_time(5000)
    reference = delayed.get()
    assert reference is not None
    assert headers_of(reference) == {"a": 1, "x-delay": -5000}
    assert not reference.redelivered


def test_what_comes_out_is_not_delayed_again(delayed: DelayedExchange) -> None:
    delayed.publish(b"later", 5000)
    delayed.bench.pass_time(5000)
    reference = delayed.get()
    assert reference is not None
    properties = reference.message.content[19 : 7 + reference.message.content[6]]
    delayed.pair.send(publish("k", b"again", "x", properties))
    assert delayed.bodies() == [b"again"]


def test_original_and_copy_change_places_in_one_batch(
    delayed: DelayedExchange,
) -> None:
    delayed.publish(b"later", 5000)
    delayed.bench.sync()
    delayed.bench.pass_time(5000)
    room = delayed.bench.store.index.queues[int(delayed.room.id)]
    assert room.live_count == 1
    delayed.bench.sync()
    assert room.live_count == 0
    assert delayed.bench.store.index.queues[int(delayed.queue.id)].live_count == 1


def test_a_persistent_message_is_confirmed_when_it_is_on_the_disk(
    delayed: DelayedExchange,
) -> None:
    pair = delayed.pair
    pair.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)
    delayed.publish(b"later", 5000)
    assert pair.take() == []
    delayed.bench.sync()
    pair.expect(1, commands.Basic.Ack)
    delayed.publish(b"transient", 5000, mode=1)
    pair.expect(1, commands.Basic.Ack)


@pytest.mark.parametrize("key", ["CC", "BCC"])
def test_copies_go_when_the_delay_is_over(delayed: DelayedExchange, key: str) -> None:
    delayed.pair.declare("r")
    delayed.bind("r", "copy")
    delayed.publish(b"later", 5000, more=string_array(key, "copy", "k"))
    assert delayed.bodies("r") == []
    delayed.bench.pass_time(5000)
    reference = delayed.get("r")
    assert reference is not None
    assert ("CC" in headers_of(reference)) == (key == "CC")
    assert "BCC" not in headers_of(reference)
    assert delayed.bodies() == [b"later"]


def test_nobody_sees_blind_copies_who_gets_the_message_at_once(
    delayed: DelayedExchange,
) -> None:
    delayed.pair.declare("r")
    bind_exchange = commands.Exchange.Bind(0, "x", "amq.fanout", "")
    delayed.pair.call(1, bind_exchange, commands.Exchange.BindOk)
    bind = commands.Queue.Bind(0, "r", "amq.fanout", "")
    delayed.pair.call(1, bind, commands.Queue.BindOk)
    properties = delayed_properties(5000, more=string_array("BCC", "copy"))
    delayed.pair.send(publish("k", b"both", "amq.fanout", properties))
    reference = delayed.get("r")
    assert reference is not None
    assert headers_of(reference) == {"x-delay": 5000}
    assert delayed.count == 1
    delayed.bench.pass_time(5000)
    assert delayed.bodies() == [b"both"]


def test_a_mandatory_message_comes_back_if_it_would_go_nowhere_now(
    delayed: DelayedExchange,
) -> None:
    for key in ("k", "nowhere"):
        properties = delayed_properties(5000)
        delayed.pair.send(publish(key, b"body", "x", properties, mandatory=True))
    ((returned, _, _),) = contents(delayed.pair.take(), commands.Basic.Return)
    assert (returned.reply_code, returned.routing_key) == (312, "nowhere")
    assert delayed.count == 1
    delayed.bench.pass_time(5000)
    assert delayed.bodies() == [b"body"]


def test_a_full_queue_that_refuses_gets_nothing(delayed: DelayedExchange) -> None:
    declare = commands.Queue.Declare(
        0, "full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"}
    )
    delayed.pair.call(1, declare, commands.Queue.DeclareOk)
    delayed.bind("full")
    for body in (b"1", b"2"):
        delayed.publish(body, 5000)
    delayed.bench.pass_time(5000)
    assert delayed.bodies("full") == [b"1"]
    assert delayed.bodies() == [b"1", b"2"]


def test_dead_letters_can_be_delayed(delayed: DelayedExchange) -> None:
    ruled = RuledQueues(delayed.bench)
    # As the waiting room is called: that is no queue which it could come round to.
    name = delayed.room.name
    queue = ruled.make(name, dead_letter_exchange="x", message_ttl=100)
    # An odd CC is nothing to a dead letter.
    more = short_string("CC") + b"t\x01"
    queue.publish(ruled.message(b"dead", delayed_properties(5000, more=more), key="k"))
    delayed.bench.pass_time(0)
    delayed.bench.pass_time(100)
    assert delayed.count == 1
    delayed.bench.pass_time(5000)
    reference = delayed.get()
    assert reference is not None
    assert headers_of(reference)["x-first-death-queue"] == name


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "Invalid argument, 'x-delayed-type' must be an existing exchange type"),
        (
            {"x-delayed-type": "x-delayed-message"},
            "Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'",
        ),
        ({"x-delayed-type": "x-odd"}, "unknown exchange type 'x-odd'"),
    ],
)
def test_the_type_that_routes_must_be_one(
    bench: Bench, arguments: dict[str, str], text: str
) -> None:
    pair = bench.connect()
    declare = commands.Exchange.Declare(
        0, "y", "x-delayed-message", arguments={**arguments}
    )
    pair.send(method(1, declare))
    expected = channel_closed(406, f"PRECONDITION_FAILED - {text}", 40, 10)
    assert pair.expect_close(1) == expected
