"""Policies do what arguments of the same name do, and who wins when both are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from pamqp.commands import Basic, Exchange, Queue

from tests.server.conftest import Managed
from tests.support.raw_client import RawClient, channel_closed
from tests.support.waiting import eventually

Check = Callable[[RawClient], None]

PERSISTENT: Final = b"\x10\x00\x02"


def set_policy(managed: Managed, definition: dict[str, object], **more: object) -> None:
    body = {"pattern": ".*", "definition": definition, **more}
    path = f"/api/policies/{managed.vhost}/p"
    assert managed.admin.put(path, body).status == 201


def set_operator_policy(managed: Managed, definition: dict[str, object]) -> None:
    body = {"pattern": ".*", "definition": definition, "apply-to": "queues"}
    path = f"/api/operator-policies/{managed.vhost}/op"
    assert managed.admin.put(path, body).status == 201


def declare(client: RawClient, name: str, **arguments: object) -> None:
    table: Any = {f"x-{key.replace('_', '-')}": arguments[key] for key in arguments}
    method = Queue.Declare(0, name, durable=True, arguments=table)
    client.call(1, method, Queue.DeclareOk)


def count(client: RawClient, queue: str) -> int:
    method = Queue.Declare(0, queue, passive=True)
    return client.call(1, method, Queue.DeclareOk).message_count or 0


def publish(client: RawClient, queue: str, *bodies: bytes) -> None:
    """Publish; whatever comes of it has come when this returns."""
    for body in bodies:
        client.publish_to_queue(queue, body, PERSISTENT)
    client.call(1, Basic.Qos(), Basic.QosOk)


def take(client: RawClient, queue: str) -> int:
    message = client.get(queue, no_ack=False)
    assert message is not None and isinstance(message.method, Basic.GetOk)
    return message.method.delivery_tag or 0


def expires(client: RawClient) -> None:
    publish(client, "q", b"x")
    eventually(lambda: count(client, "q") == 0)


def keeps_two(client: RawClient) -> None:
    publish(client, "q", b"1", b"2", b"3")
    assert count(client, "q") == 2


def keeps_three_octets(client: RawClient) -> None:
    publish(client, "q", b"12", b"345", b"6")
    assert count(client, "q") == 1


def keeps_the_first(client: RawClient) -> None:
    publish(client, "q", b"1", b"2")
    message = client.get("q")
    assert message is not None
    assert message.body == b"1"


def gives_up_at_once(client: RawClient) -> None:
    publish(client, "q", b"x")
    client.send_method(1, Basic.Reject(take(client, "q"), requeue=True))
    assert count(client, "q") == 0


def sends_on(client: RawClient) -> None:
    declare(client, "dead")
    publish(client, "q", b"x")
    client.send_method(1, Basic.Reject(take(client, "q"), requeue=False))
    eventually(lambda: count(client, "dead") == 1)


def makes_it_wait(client: RawClient) -> None:
    publish(client, "q", b"x")
    client.send_method(1, Basic.Reject(take(client, "q"), requeue=True))
    assert count(client, "q") == 0
    # It is in the queue all the same.
    assert client.call(1, Queue.Purge(0, "q"), Queue.PurgeOk).message_count == 1


def takes_it_back(client: RawClient) -> None:
    client.call(1, Basic.Consume(0, "q", "slow"), Basic.ConsumeOk)
    client.publish_to_queue("q", b"x", PERSISTENT)
    client.expect_message(1, Basic.Deliver)
    client.send_method(1, Basic.Cancel("slow"))
    # Until then it comes again and again.
    while isinstance(method := client.next_frame().method, Basic.Deliver):
        client.content_of(1, method)
    assert isinstance(method, Basic.CancelOk)
    eventually(lambda: count(client, "q") == 1)


DOES: Final[dict[str, tuple[dict[str, object], Check]]] = {
    "message-ttl": ({"message-ttl": 20}, expires),
    "max-length": ({"max-length": 2}, keeps_two),
    "max-length-bytes": ({"max-length-bytes": 3}, keeps_three_octets),
    "overflow": ({"max-length": 1, "overflow": "reject-publish"}, keeps_the_first),
    "delivery-limit": ({"delivery-limit": 0}, gives_up_at_once),
    "dead-letter-exchange": (
        {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"},
        sends_on,
    ),
    "delayed-retry": (
        {"delayed-retry-type": "all", "delayed-retry-min": 60_000},
        makes_it_wait,
    ),
    "consumer-timeout": ({"consumer-timeout": 30}, takes_it_back),
}


@pytest.mark.parametrize("is_earlier", [True, False], ids=["earlier", "later"])
@pytest.mark.parametrize("key", DOES)
def test_a_policy_does_what_the_argument_does(
    managed: Managed, key: str, is_earlier: bool
) -> None:
    definition, check = DOES[key]
    with managed.client() as client:
        if is_earlier:
            set_policy(managed, definition, **{"apply-to": "queues"})
        declare(client, "q")
        if not is_earlier:
            set_policy(managed, definition, **{"apply-to": "queues"})
        check(client)


def test_an_operators_policy_does_it_too(managed: Managed) -> None:
    with managed.client() as client:
        declare(client, "q")
        set_operator_policy(managed, {"message-ttl": 20})
        expires(client)


def test_a_policy_that_is_gone_does_nothing_more(managed: Managed) -> None:
    with managed.client() as client:
        declare(client, "q")
        set_policy(managed, {"max-length": 1})
        path = f"/api/policies/{managed.vhost}/p"
        assert managed.admin.delete(path).status == 204
        publish(client, "q", b"1", b"2")
        assert count(client, "q") == 2


@pytest.mark.parametrize(("argument", "by_policy", "kept"), [(1, 3, 1), (3, 1, 1)])
def test_of_two_numbers_the_lesser_counts(
    managed: Managed, argument: int, by_policy: int, kept: int
) -> None:
    with managed.client() as client:
        set_policy(managed, {"max-length": by_policy})
        declare(client, "q", max_length=argument)
        publish(client, "q", b"1", b"2", b"3", b"4")
        assert count(client, "q") == kept


def test_an_argument_wins_over_a_policy(managed: Managed) -> None:
    with managed.client() as client:
        set_policy(managed, {"dead-letter-routing-key": "theirs", "max-length": 1})
        declare(client, "theirs")
        declare(client, "ours")
        declare(client, "q", dead_letter_exchange="", dead_letter_routing_key="ours")
        publish(client, "q", b"x")
        client.send_method(1, Basic.Reject(take(client, "q"), requeue=False))
        eventually(lambda: count(client, "ours") == 1)
        assert count(client, "theirs") == 0


def test_an_operators_policy_wins_over_an_argument(managed: Managed) -> None:
    with managed.client() as client:
        set_operator_policy(managed, {"max-length": 1, "overflow": "reject-publish"})
        declare(client, "q", overflow="drop-head")
        keeps_the_first(client)


def test_an_alternate_exchange_may_be_set_by_a_policy(managed: Managed) -> None:
    with managed.client() as client:
        client.call(1, Exchange.Declare(0, "lost", "fanout"), Exchange.DeclareOk)
        declare(client, "q")
        client.call(1, Queue.Bind(0, "q", "lost"), Queue.BindOk)
        client.call(1, Exchange.Declare(0, "x", "direct"), Exchange.DeclareOk)
        set_policy(managed, {"alternate-exchange": "lost"}, **{"apply-to": "exchanges"})
        client.publish(1, Basic.Publish(0, "x", "nobody", mandatory=True), b"x")
        client.call(1, Basic.Qos(), Basic.QosOk)
        assert count(client, "q") == 1


def test_what_belongs_to_a_declaration_is_no_policy(managed: Managed) -> None:
    path = f"/api/policies/{managed.vhost}/p"
    for key in ("max-priority", "single-active-consumer"):
        reply = managed.admin.put(path, {"pattern": "", "definition": {key: 1}})
        shown = f'[{{<<"{key}">>,1}}]'
        text = f"Validation failed\n\n{shown} are not recognised policy settings\n"
        assert (reply.status, reply.reason) == (400, text)


def test_a_queue_too_many_for_its_virtual_host_is_406(managed: Managed) -> None:
    path = f"/api/vhost-limits/{managed.vhost}/max-queues"
    assert managed.admin.put(path, {"value": 1}).status == 204
    with managed.client() as client:
        declare(client, "q")
        declare(client, "q")
        client.send_method(1, Queue.Declare(0, "r", durable=True))
        text = (
            "PRECONDITION_FAILED - cannot declare queue 'r': queue limit in vhost "
            f"'{managed.vhost}' (1) is reached"
        )
        client.expect_refusal(channel_closed(406, text, 50, 10))


@pytest.mark.parametrize("said", [{}, {"x-queue-type": "quorum"}])
def test_who_names_no_type_gets_the_virtual_hosts(
    managed: Managed, said: dict[str, object]
) -> None:
    body = {"default_queue_type": "quorum"}
    assert managed.admin.put(f"/api/vhosts/{managed.vhost}", body).status == 204
    with managed.client() as client:
        declare(client, "q")
        # Naming it or not is the same declaration.
        table: Any = said
        method = Queue.Declare(0, "q", durable=True, arguments=table)
        client.call(1, method, Queue.DeclareOk)
        assert managed.admin.get(f"/api/queues/{managed.vhost}/q")["type"] == "quorum"


# -- what the API tells of types and consumers ------------------------------------


def test_a_quorum_queue_is_told_as_one(managed: Managed) -> None:
    with managed.client() as client:
        declare(client, "q", queue_type="quorum")
        told = managed.admin.get(f"/api/queues/{managed.vhost}/q")
    node = told["node"]
    assert told["type"] == "quorum"
    assert (told["leader"], told["members"], told["online"]) == (node, [node], [node])


def test_the_single_active_consumer_is_told_from_those_that_wait(
    managed: Managed,
) -> None:
    with managed.client() as client:
        declare(client, "q", single_active_consumer=True)
        for tag in ("first", "second"):
            client.call(1, Basic.Consume(0, "q", tag), Basic.ConsumeOk)
        consumers = managed.admin.get(f"/api/consumers/{managed.vhost}")
        told = managed.admin.get(f"/api/queues/{managed.vhost}/q")
    assert {one["consumer_tag"]: one["activity_status"] for one in consumers} == {
        "first": "single_active",
        "second": "waiting",
    }
    assert {one["consumer_tag"]: one["active"] for one in consumers} == {
        "first": True,
        "second": False,
    }
    assert told["single_active_consumer_tag"] == "first"


def test_a_queue_cannot_be_paused(managed: Managed) -> None:
    """LavinMQ can; RabbitMQ's API has no such path, and ours has none either."""
    with managed.client() as client:
        declare(client, "q")
        for verb in ("pause", "resume"):
            path = f"/api/queues/{managed.vhost}/q/{verb}"
            assert managed.admin.put(path, {}).status in (404, 405)
