"""Queues: listed, declared and deleted; what is in them is the matter of `messages`."""

from __future__ import annotations

from typing import Final

from amqpd.broker.arguments import QUORUM, queue_type
from amqpd.broker.clients.connections import Connections
from amqpd.broker.policies.effective_policy import NO_POLICY, EffectivePolicy
from amqpd.broker.queues.keeper import held_count_of
from amqpd.broker.queues.queue import Queue
from amqpd.broker.queues.queue_state import QueueState
from amqpd.broker.vhosts.queue_changes import QueueProperties
from amqpd.http import fields
from amqpd.http.answer import NO_CONTENT, Answer, encode, put_answer
from amqpd.http.api.consumers import consumers_of
from amqpd.http.call import Call
from amqpd.http.columns import Facts
from amqpd.http.endpoint import Endpoint, Need
from amqpd.http.errors import BadRequest, ObjectNotFound
from amqpd.http.listing import Listing, single
from amqpd.http.pace import Pace, sorted_names
from amqpd.http.peer import peer_facts
from amqpd.http.queue_texts import Make
from amqpd.http.tables import arguments_in, as_json

#: What "actions" may be: they are about mirrors, which there are none of.
ACTIONS: Final = ("sync", "cancel_sync")


def _configuration(queue: Queue) -> Facts:
    return {
        "name": queue.name,
        "vhost": queue.vhost_name,
        "type": queue_type(queue.arguments),
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.exclusive_owner is not None,
        "arguments": as_json(queue.arguments),
    }


def _policies(queue: Queue) -> EffectivePolicy:
    return NO_POLICY if queue.keeper is None else queue.keeper.rules.effective


def _policy_facts(queue: Queue) -> Facts:
    """What policies say of it."""
    effective = _policies(queue)
    return {
        "policy": effective.policy_name,
        "operator_policy": effective.operator_policy_name,
        "effective_policy_definition": effective.definition,
    }


def _counts(queue: Queue) -> Facts:
    ready, unacked = queue.ready_count, int(queue.unacked_count)
    return {
        "messages": ready + unacked + held_count_of(queue.keeper),
        "messages_ready": ready,
        "messages_unacknowledged": unacked,
    }


def _held_facts(queue: Queue) -> Facts:
    """Dead letters that stay until others take them; a quorum queue may have some."""
    keeper = queue.keeper
    return {
        "messages_dlx": held_count_of(keeper),
        "message_bytes_dlx": 0 if keeper is None else int(keeper.held_size),
    }


def _memory(queue: Queue) -> Facts:
    state = QueueState()
    state.note(queue)
    in_memory = state.ready_count - state.on_disk_count
    return {
        "messages_ram": int(in_memory + state.unacked_count),
        "messages_ready_ram": int(in_memory),
        "messages_unacknowledged_ram": int(state.unacked_count),
        "messages_paged_out": int(state.on_disk_count),
        "message_bytes_ready": int(state.ready_size),
    }


def _exclusive_tag(queue: Queue) -> str | None:
    return queue.consumers[0].tag if queue.has_exclusive_consumer else None


def _consumer_facts(queue: Queue) -> Facts:
    return {
        "consumers": queue.consumer_count,
        "exclusive_consumer_tag": _exclusive_tag(queue),
        "single_active_consumer_tag": queue.single_active_consumer_tag or None,
    }


def _owner_facts(queue: Queue, connections: Connections) -> Facts:
    if queue.exclusive_owner is None:
        return {}
    owner = connections.of_owner(queue.exclusive_owner)
    if owner is None:
        return {}
    name = owner.get_name()
    return {"owner_pid_details": {"name": name, **peer_facts(name)}}


class QueueFacts:
    """What is said of queues in one answer: all, or what a cheap list has."""

    def __init__(self, call: Call) -> None:
        self._connections = call.broker.connections
        self._node = {"node": call.room.identity.node, "state": "running"}
        node = call.room.identity.node
        self._members = {"leader": node, "members": [node], "online": [node]}
        self._is_bare = call.flag("disable_stats")
        self._has_totals = not self._is_bare or call.flag("enable_queue_totals")

    def of(self, queue: Queue) -> Facts:
        """All there is to say of a queue in a list."""
        facts = {**_configuration(queue), **self._node}
        if facts["type"] == QUORUM:
            # The whole quorum is this node.
            facts.update(self._members)
        if self._has_totals:
            facts.update(_counts(queue))
        if not self._is_bare:
            facts.update(_policy_facts(queue))
            facts.update(_consumer_facts(queue))
            facts.update(_memory(queue))
            if facts["type"] == QUORUM:
                facts.update(_held_facts(queue))
            facts.update(_owner_facts(queue, self._connections))
        return facts


def _key(queue: Queue) -> tuple[str, str]:
    return queue.vhost_name, queue.name


#: What a list may be asked for besides all there is.
_CHOICES: Final = ("page", "sort", "sort_reverse", "columns")


async def _whole_list(call: Call, make: Make) -> Answer:
    """Return all there is to say of all queues, of which most is known already."""
    texts: list[bytes] = []
    pace = Pace()
    for vhost in call.vhosts():
        texts += await call.room.queue_texts.list_of(vhost, make, pace)
    return Answer(array=texts)


async def _in_order(call: Call) -> list[Queue]:
    found: list[Queue] = []
    pace = Pace()
    for vhost in call.vhosts():
        queues = vhost.queues
        for name in await sorted_names(queues, pace):
            queue = queues.get(name)
            if queue is not None:
                found.append(queue)
    return found


def queue_of(call: Call) -> Queue:
    """Return the queue that the path names.

    Raises:
        ObjectNotFound: there is none.
    """
    queue = call.vhost().queues.get(call.name("queue"))
    if queue is None:
        raise ObjectNotFound
    return queue


async def list_queues(call: Call) -> Answer:
    """The queues of one virtual host, or of all that the user may see."""
    facts = QueueFacts(call)
    if call.flag("disable_stats"):
        listing = Listing[Queue](_key, facts.of)
        return await listing.answer(call, await _in_order(call), is_ordered=True)

    def make(queue: Queue) -> bytes:
        return encode(facts.of(queue))

    texts = call.room.queue_texts
    texts.forget_gone(call.broker.vhosts)
    if not any(choice in call.query for choice in _CHOICES):
        return await _whole_list(call, make)
    listing = Listing[Queue](_key, facts.of, lambda queue: texts.text_of(queue, make))
    return await listing.answer(call, await _in_order(call), is_ordered=True)


async def show_queue(call: Call) -> Answer:
    """One queue, with its consumers. Who published and got how much is statistics'."""
    queue = queue_of(call)
    facts = QueueFacts(call).of(queue)
    if not call.flag("disable_stats"):
        facts["consumer_details"] = await consumers_of(call, queue)
        facts.update({"incoming": [], "deliveries": []})
    return single(call, facts)


async def put_queue(call: Call) -> Answer:
    """Declare a queue. Nobody owns it, so it is never exclusive."""
    body = await call.body()
    vhost = call.vhost()
    name = call.name("queue")
    node = fields.text(body, "node", call.room.identity.node)
    if node != call.room.identity.node:
        raise BadRequest(f"Node {node} could not be contacted")
    properties = QueueProperties(
        fields.flag(body, "durable"),
        False,
        fields.flag(body, "auto_delete"),
        arguments_in(body),
    )
    is_new = name not in vhost.queues
    access = call.access(vhost)
    await call.ask(
        Queue, lambda done: vhost.declare_queue(access, name, properties, done)
    )
    return put_answer(is_new)


async def delete_queue(call: Call) -> Answer:
    """Delete a queue, only if it is empty or unused if so asked."""
    vhost = call.vhost()
    name = queue_of(call).name
    access = call.access(vhost)
    if_unused, if_empty = call.flag("if-unused"), call.flag("if-empty")
    await call.ask(
        int, lambda done: vhost.delete_queue(access, name, if_unused, if_empty, done)
    )
    return NO_CONTENT


async def post_action(call: Call) -> Answer:
    """What RabbitMQ did with mirrors: nothing is left to do."""
    queue_of(call)
    body = await call.body_with("action")
    if body["action"] not in ACTIONS:
        raise BadRequest(["unknown", body["action"]])
    return NO_CONTENT


_ONE = "/api/queues/{vhost}/{queue}"

ENDPOINTS = (
    Endpoint("GET", "/api/queues", Need.MANAGEMENT, list_queues),
    Endpoint("GET", "/api/queues/detailed", Need.MANAGEMENT, list_queues),
    Endpoint("GET", "/api/queues/{vhost}", Need.VHOST, list_queues),
    Endpoint("GET", _ONE, Need.VHOST, show_queue),
    Endpoint("PUT", _ONE, Need.VHOST, put_queue),
    Endpoint("DELETE", _ONE, Need.VHOST, delete_queue),
    Endpoint("POST", _ONE + "/actions", Need.ADMINISTRATOR, post_action),
)
