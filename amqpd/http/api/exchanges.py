"""Exchanges: listed, declared and deleted."""

from __future__ import annotations

from amqpd.broker.arguments import Arguments
from amqpd.broker.exchange import Exchange
from amqpd.broker.vhosts.vhost import VirtualHost
from amqpd.http import fields
from amqpd.http.answer import NO_CONTENT, Answer, put_answer
from amqpd.http.call import Call
from amqpd.http.columns import Facts
from amqpd.http.endpoint import Endpoint, Need
from amqpd.http.errors import ObjectNotFound
from amqpd.http.listing import Listing, single
from amqpd.http.tables import arguments_in, as_json

#: The default exchange is no object in the broker, but people look for it.
DEFAULT = Exchange("", "direct", True, False, False, Arguments({}, b""))

Placed = tuple[str, Exchange]


def _facts(placed: Placed) -> Facts:
    vhost_name, exchange = placed
    facts: Facts = {
        "name": exchange.name,
        "vhost": vhost_name,
        "type": exchange.type_name,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": as_json(exchange.arguments.table),
    }
    if exchange.policy is not None:
        facts["policy"] = exchange.policy.name
    return facts


LISTING = Listing[Placed](lambda placed: (placed[0], placed[1].name), _facts)


def exchange_of(call: Call) -> Exchange:
    """Return the exchange that the path names.

    Raises:
        ObjectNotFound: there is none.
    """
    vhost = call.vhost()
    name = call.name("exchange")
    if not name:
        return DEFAULT
    exchange = vhost.exchanges.get(name)
    if exchange is None:
        raise ObjectNotFound
    return exchange


def _all_in(vhost: VirtualHost) -> list[Placed]:
    return [(vhost.name, one) for one in (DEFAULT, *vhost.exchanges.values())]


async def list_exchanges(call: Call) -> Answer:
    """The exchanges of one virtual host, or of all that the user may see."""
    found = [placed for vhost in call.vhosts() for placed in _all_in(vhost)]
    return await LISTING.answer(call, found)


async def show_exchange(call: Call) -> Answer:
    """One exchange. What came in and went out by whom is a matter of statistics."""
    facts = _facts((call.vhost().name, exchange_of(call)))
    return single(call, {**facts, "incoming": [], "outgoing": []})


async def put_exchange(call: Call) -> Answer:
    """Declare an exchange."""
    body = await call.body()
    vhost = call.vhost()
    exchange = Exchange(
        call.name("exchange"),
        fields.text(body, "type", "direct"),
        fields.flag(body, "durable"),
        fields.flag(body, "auto_delete"),
        fields.flag(body, "internal"),
        arguments_in(body),
    )
    is_new = exchange.name not in vhost.exchanges
    access = call.access(vhost)
    await call.change(lambda done: vhost.declare_exchange(access, exchange, done))
    return put_answer(is_new)


async def delete_exchange(call: Call) -> Answer:
    """Delete an exchange, only if nothing is bound to it if so asked."""
    vhost = call.vhost()
    name = exchange_of(call).name
    access, if_unused = call.access(vhost), call.flag("if-unused")
    await call.change(lambda done: vhost.delete_exchange(access, name, if_unused, done))
    return NO_CONTENT


_ONE = "/api/exchanges/{vhost}/{exchange}"

ENDPOINTS = (
    Endpoint("GET", "/api/exchanges", Need.MANAGEMENT, list_exchanges),
    Endpoint("GET", "/api/exchanges/{vhost}", Need.VHOST, list_exchanges),
    Endpoint("GET", _ONE, Need.VHOST, show_exchange),
    Endpoint("PUT", _ONE, Need.VHOST, put_exchange),
    Endpoint("DELETE", _ONE, Need.VHOST, delete_exchange),
)
