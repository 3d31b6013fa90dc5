"""Bindings: listed by what they lead from and to, made and undone.

A binding is called by its `properties_key`: its routing key, quoted, and behind a tilde
a digest of its arguments if it has any.

    ~             no key, no arguments         a.b           that key, no arguments
    ~x3Zk8Q       no key, these arguments      a.b~x3Zk8Q    both
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final
from urllib.parse import quote, quote_plus, unquote_plus

from amqpd.broker.arguments import Arguments
from amqpd.broker.vhosts.binding_list import (
    Binding,
    bindings_from,
    bindings_to,
    default_binding,
)
from amqpd.broker.vhosts.vhost import VirtualHost
from amqpd.http import fields
from amqpd.http.answer import NO_CONTENT, Answer
from amqpd.http.call import Call
from amqpd.http.columns import Facts
from amqpd.http.endpoint import Endpoint, Need
from amqpd.http.errors import ObjectNotFound
from amqpd.http.listing import Listing, single
from amqpd.http.pace import Pace
from amqpd.http.tables import arguments_in, as_json

#: What a binding leads to, as paths have it -> whether that is an exchange.
KINDS: Final = {"e": True, "q": False}
DIGEST_SIZE: Final = 6

Placed = tuple[str, Binding]


def properties_key(binding: Binding) -> str:
    """Return what a binding is called, among those from here to there."""
    key = quote_plus(binding.key).replace("~", "%7E")
    if not binding.raw_arguments:
        return key or "~"
    digest = hashlib.sha256(binding.raw_arguments).digest()[:DIGEST_SIZE]
    return f"{key}~{base64.urlsafe_b64encode(digest).decode()}"


def _facts(placed: Placed) -> Facts:
    vhost_name, binding = placed
    return {
        "source": binding.source,
        "vhost": vhost_name,
        "destination": binding.destination,
        "destination_type": "exchange" if binding.to_exchange else "queue",
        "routing_key": binding.key.decode("utf-8", "surrogateescape"),
        "arguments": as_json(binding.arguments),
        "properties_key": properties_key(binding),
    }


def _order(placed: Placed) -> tuple[str, str]:
    """RabbitMQ sorts by source, destination and key; none of them has a zero octet."""
    vhost_name, one = placed
    key = one.key.decode("utf-8", "surrogateescape")
    return vhost_name, f"{one.source}\0{one.destination}\0{key}"


LISTING = Listing[Placed](_order, _facts)


async def _list(call: Call, vhost: VirtualHost, found: list[Binding]) -> Answer:
    return await LISTING.answer(call, [(vhost.name, one) for one in found])


async def list_bindings(call: Call) -> Answer:
    """The bindings of one virtual host, or of all that the user may see."""
    found: list[Placed] = []
    pace = Pace()
    for vhost in call.vhosts():
        for name in list(vhost.queues):
            found.append((vhost.name, default_binding(name)))
            await pace.step()
        for name in list(vhost.exchanges):
            found.extend((vhost.name, one) for one in bindings_from(vhost, name))
            await pace.step()
    return await LISTING.answer(call, found)


async def list_from_exchange(call: Call) -> Answer:
    """What is bound to an exchange."""
    vhost = call.vhost()
    return await _list(call, vhost, bindings_from(vhost, call.name("exchange")))


async def list_to_exchange(call: Call) -> Answer:
    """What an exchange is bound to."""
    vhost = call.vhost()
    return await _list(call, vhost, bindings_to(vhost, call.name("exchange"), True))


async def list_to_queue(call: Call) -> Answer:
    """What a queue is bound to."""
    vhost = call.vhost()
    return await _list(call, vhost, bindings_to(vhost, call.name("queue"), False))


def _between(call: Call) -> list[Binding]:
    """Return the bindings between the two ends that the path names."""
    to_exchange = _leads_to_exchange(call)
    source = call.name("source")
    found = bindings_to(call.vhost(), call.name("destination"), to_exchange)
    return [one for one in found if one.source == source]


def _leads_to_exchange(call: Call) -> bool:
    kind = KINDS.get(call.names["kind"])
    if kind is None:
        raise ObjectNotFound
    return kind


async def list_between(call: Call) -> Answer:
    """The bindings between two ends."""
    return await _list(call, call.vhost(), _between(call))


def _binding_of(call: Call) -> Binding:
    wanted = _key_and_digest(call.name("key"))
    for binding in _between(call):
        if _key_and_digest(properties_key(binding)) == wanted:
            return binding
    raise ObjectNotFound


def _key_and_digest(name: str) -> tuple[str, str]:
    """Take a name apart. Clients send it quoted as in lists, or the key as it is."""
    key, _, digest = name.partition("~")
    return unquote_plus(key, errors="surrogateescape"), digest


async def show_binding(call: Call) -> Answer:
    """One binding."""
    return single(call, _facts((call.vhost().name, _binding_of(call))))


async def post_binding(call: Call) -> Answer:
    """Bind; the answer says where the binding is."""
    body = await call.body()
    vhost = call.vhost()
    source, destination = call.name("source"), call.name("destination")
    to_exchange = _leads_to_exchange(call)
    key = fields.routing_key(body)
    arguments = arguments_in(body)
    access = call.access(vhost)
    await call.change(
        lambda done: vhost.bind(
            access, source, destination, to_exchange, key, arguments, done
        )
    )
    made = Binding(
        source, destination, to_exchange, key, arguments.table, arguments.canonical()
    )
    place = f"{quote(destination, safe='')}/{quote(properties_key(made), safe='')}"
    return Answer(status=201, headers={"Location": place})


async def delete_binding(call: Call) -> Answer:
    """Undo a binding."""
    binding = _binding_of(call)
    vhost = call.vhost()
    access = call.access(vhost)
    arguments = Arguments(binding.arguments, binding.raw_arguments)
    await call.change(
        lambda done: vhost.unbind(
            access,
            binding.source,
            binding.destination,
            binding.to_exchange,
            binding.key,
            arguments,
            done,
        )
    )
    return NO_CONTENT


_OF_EXCHANGE = "/api/exchanges/{vhost}/{exchange}/bindings"
_BETWEEN = "/api/bindings/{vhost}/e/{source}/{kind}/{destination}"
_ONE = _BETWEEN + "/{key}"

ENDPOINTS = (
    Endpoint("GET", "/api/bindings", Need.MANAGEMENT, list_bindings),
    Endpoint("GET", "/api/bindings/{vhost}", Need.VHOST, list_bindings),
    Endpoint("GET", _OF_EXCHANGE + "/source", Need.VHOST, list_from_exchange),
    Endpoint("GET", _OF_EXCHANGE + "/destination", Need.VHOST, list_to_exchange),
    Endpoint("GET", "/api/queues/{vhost}/{queue}/bindings", Need.VHOST, list_to_queue),
    Endpoint("GET", _BETWEEN, Need.VHOST, list_between),
    Endpoint("POST", _BETWEEN, Need.VHOST, post_binding),
    Endpoint("GET", _ONE, Need.VHOST, show_binding),
    Endpoint("DELETE", _ONE, Need.VHOST, delete_binding),
)
