"""The bindings of a virtual host, as people look for them.

Every queue is bound to the default exchange by its name. The router has no such
binding, since nobody can undo it, but here it is among the others.
"""

from amqpd.broker.vhosts.vhost import VirtualHost
from routing.binding import Binding as Binding

DEFAULT_EXCHANGE = ""


def bindings_in(vhost: VirtualHost) -> list[Binding]:
    """Return all bindings."""
    found = [_default(name) for name in vhost.queues]
    found.extend(vhost.router.bindings())
    return found


def bindings_from(vhost: VirtualHost, source: str) -> list[Binding]:
    """Return the bindings that lead away from an exchange; it need not exist."""
    if source == DEFAULT_EXCHANGE:
        return [_default(name) for name in vhost.queues]
    return list(vhost.router.bindings_from(source))


def bindings_to(vhost: VirtualHost, name: str, to_exchange: bool) -> list[Binding]:
    """Return the bindings that lead to a queue or an exchange; it need not exist."""
    found = [] if to_exchange or name not in vhost.queues else [_default(name)]
    found.extend(vhost.router.bindings_to(name, to_exchange))
    return found


def _default(queue_name: str) -> Binding:
    key = queue_name.encode("utf-8", "surrogateescape")
    return Binding(DEFAULT_EXCHANGE, queue_name, False, key, {}, b"")
