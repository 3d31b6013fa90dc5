"""Virtual hosts: listed with their totals, created, changed and deleted."""

from __future__ import annotations

from typing import Any, Final

from amqpd.broker.policies.policy import ParameterInvalid
from amqpd.broker.policies.vhost_metadata import NO_METADATA, UNDEFINED
from amqpd.broker.vhosts.vhost import VirtualHost
from amqpd.http import fields
from amqpd.http.answer import NO_CONTENT, Answer, put_answer
from amqpd.http.call import Call
from amqpd.http.columns import Facts
from amqpd.http.endpoint import Endpoint, Need
from amqpd.http.errors import BadRequest, Protected
from amqpd.http.listing import Listing, single
from amqpd.http.pace import Pace
from amqpd.http.totals import Totals, totals_of

#: Queues of a deleted virtual host that are dropped at a time.
DROPPED_AT_ONCE: Final = 50


def _facts(vhost: VirtualHost, totals: Totals | None, node: str) -> Facts:
    metadata = vhost.metadata
    facts: Facts = {
        "name": vhost.name,
        "description": metadata.description,
        "tags": list(metadata.tags),
        "default_queue_type": metadata.default_queue_type or UNDEFINED,
        "metadata": metadata.described(),
        "tracing": metadata.tracing,
        "protected_from_deletion": metadata.protected_from_deletion,
        "cluster_state": {node: "running"},
    }
    if totals is not None:
        facts.update(totals.facts())
    return facts


async def _totals(call: Call, vhosts: list[VirtualHost]) -> dict[str, Totals]:
    if call.flag("disable_stats"):
        return {}
    pace = Pace()
    return {vhost.name: await totals_of([vhost], pace) for vhost in vhosts}


async def list_vhosts(call: Call) -> Answer:
    """The virtual hosts that the user may see."""
    vhosts = [
        vhost
        for vhost in call.broker.vhosts.values()
        if call.is_monitor or call.may_enter(vhost.name)
    ]
    totals = await _totals(call, vhosts)
    node = call.room.identity.node
    listing = Listing[VirtualHost](
        lambda vhost: ("", vhost.name),
        lambda vhost: _facts(vhost, totals.get(vhost.name), node),
    )
    return await listing.answer(call, vhosts)


async def show_vhost(call: Call) -> Answer:
    """One virtual host."""
    vhost = call.vhost()
    totals = await _totals(call, [vhost])
    node = call.room.identity.node
    return single(call, _facts(vhost, totals.get(vhost.name), node))


async def put_vhost(call: Call) -> Answer:
    """Create a virtual host, or change what is known of it.

    Who creates it gets all rights in it.
    """
    body = _readable(await call.body())
    name = call.name("vhost")
    accounts = call.broker.accounts
    async with call.room.change_lock:
        there = call.broker.vhosts.get(name)
        try:
            metadata = (NO_METADATA if there is None else there.metadata).with_fields(
                body
            )
        except ParameterInvalid as error:
            raise BadRequest(str(error)) from error
        await call.change(
            lambda done: accounts.put_vhost(name, metadata, call.user, done)
        )
    return put_answer(there is None)


def _readable(body: dict[str, Any]) -> dict[str, Any]:
    """Flags may be spelled out."""
    for key in ("tracing", "protected_from_deletion"):
        if key in body:
            body[key] = fields.flag(body, key)
    return body


async def delete_vhost(call: Call) -> Answer:
    """Delete a virtual host with all that is in it; its connections end."""
    vhost = call.vhost()
    if vhost.metadata.protected_from_deletion:
        raise Protected(
            f"Refusing to delete virtual host '{vhost.name}' because it is protected "
            "from deletion"
        )
    now_ms = call.room.now_ms()
    await call.change(
        lambda done: call.broker.accounts.delete_vhost(vhost, now_ms, done)
    )
    call.room.wake()
    call.room.start(_drop(vhost))
    return NO_CONTENT


async def _drop(vhost: VirtualHost) -> None:
    """Its rows are gone; now what it has in memory, without holding the loop."""
    pace = Pace()
    while vhost.drop_queues(DROPPED_AT_ONCE):
        await pace.step()


async def start_vhost(call: Call) -> Answer:
    """Start a virtual host on a node: they all run on the only one."""
    call.vhost()
    node = call.name("node")
    if node != call.room.identity.node:
        raise BadRequest(f"Request to node {node} failed with nodedown")
    return NO_CONTENT


_ONE = "/api/vhosts/{vhost}"

ENDPOINTS = (
    Endpoint("GET", "/api/vhosts", Need.MANAGEMENT, list_vhosts),
    Endpoint("GET", _ONE, Need.VHOST_VISIBLE, show_vhost),
    Endpoint("PUT", _ONE, Need.ADMINISTRATOR, put_vhost),
    Endpoint("DELETE", _ONE, Need.ADMINISTRATOR, delete_vhost),
    Endpoint("POST", _ONE + "/start/{node}", Need.ADMINISTRATOR, start_vhost),
)
