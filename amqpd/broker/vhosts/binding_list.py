"""The bindings of a virtual host, as people look for them.

Every queue is bound to the default exchange by its name. The router has no such
binding, since nobody can undo it, but here it is among the others.
"""

from amqpd.broker.vhosts.vhost import VirtualHost
from routing.binding import Binding as Binding

DEFAULT_EXCHANGE = ""


def bindings_from(vhost: VirtualHost, source: str) -> list[Binding]:
    """Return the bindings that lead away from an exchange; it need not exist."""
    if source == DEFAULT_EXCHANGE:
        return [default_binding(name) for name in vhost.queues]
    return list(vhost.router.bindings_from(source))


def bindings_to(vhost: VirtualHost, name: str, to_exchange: bool) -> list[Binding]:
    """Return the bindings that lead to a queue or an exchange; it need not exist."""
    found = [] if to_exchange or name not in vhost.queues else [default_binding(name)]
    found.extend(vhost.router.bindings_to(name, to_exchange))
    return found


def default_binding(queue_name: str) -> Binding:
    """Return the binding that every queue has to the default exchange."""
    key = queue_name.encode("utf-8", "surrogateescape")
    return Binding(DEFAULT_EXCHANGE, queue_name, False, key, {}, b"")
