"""What an export of definitions says, section by section, in RabbitMQ's words.

Each section is made while it is written, so that a long one does not hold the loop.
What ends with a connection, and what every virtual host is born with, is left out; the
bindings of predeclared exchanges are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from amqpd.broker.arguments import queue_type
from amqpd.broker.broker import Broker
from amqpd.broker.exchange import RESERVED_PREFIX
from amqpd.broker.policies.parameters import GLOBAL, POLICY, USER_LIMITS
from amqpd.broker.vhosts.vhost import VirtualHost
from amqpd.http.api.policies import policy_facts
from amqpd.http.columns import Facts
from amqpd.http.room import Identity
from amqpd.http.tables import as_json

PRODUCT: Final = "amqpd"

#: Parameters that have sections of their own.
_ELSEWHERE: Final = frozenset({GLOBAL, POLICY, USER_LIMITS})


def cluster_head(identity: Identity) -> Facts:
    """Return what stands before the sections of an export of everything."""
    return {
        **_versions(identity),
        "rabbitmq_definition_format": "cluster",
        "original_cluster_name": identity.cluster_name,
        "explanation": f"Definitions of cluster '{identity.cluster_name}'",
    }


def vhost_head(identity: Identity, broker: Broker, vhost: VirtualHost) -> Facts:
    """Return what stands before the sections of an export of one virtual host."""
    described = vhost.metadata.described()
    head = {
        **_versions(identity),
        "rabbitmq_definition_format": "single_virtual_host",
        "original_vhost_name": vhost.name,
        "explanation": f"Definitions of virtual host '{vhost.name}'",
        "metadata": described,
        "description": vhost.metadata.description,
        "limits": broker.admission.limits_of_vhost(vhost.name),
    }
    if vhost.metadata.default_queue_type is not None:
        head["default_queue_type"] = vhost.metadata.default_queue_type
    return head


def _versions(identity: Identity) -> Facts:
    return {
        "rabbit_version": identity.rabbitmq_version,
        "rabbitmq_version": identity.rabbitmq_version,
        "product_name": PRODUCT,
        "product_version": identity.amqpd_version,
    }


def users(broker: Broker) -> Iterator[Facts]:
    """All users, with their hashes."""
    for name in broker.users.names():
        user = broker.users.get(name)
        if user is not None:
            yield {
                "name": name,
                "password_hash": user.password_hash,
                "hashing_algorithm": user.algorithm,
                "tags": list(user.tags),
                "limits": broker.admission.limits_of_user(name),
            }


def vhost_facts(vhost: VirtualHost) -> Facts:
    """A virtual host; its limits are among the parameters."""
    described = vhost.metadata.described()
    return {
        "name": vhost.name,
        **described,
        "metadata": described,
        "tracing": vhost.metadata.tracing,
        "protected_from_deletion": vhost.metadata.protected_from_deletion,
        "limits": [],
    }


def permissions(broker: Broker) -> Iterator[Facts]:
    """All permissions."""
    for one in broker.permissions.entries():
        yield {
            "user": one.user,
            "vhost": one.vhost,
            "configure": one.configure,
            "write": one.write,
            "read": one.read,
        }


def topic_permissions(broker: Broker) -> Iterator[Facts]:
    """All topic permissions."""
    for one in broker.permissions.topic_entries():
        yield {
            "user": one.user,
            "vhost": one.vhost,
            "exchange": one.exchange,
            "write": one.write,
            "read": one.read,
        }


def parameters(broker: Broker, vhosts: list[str]) -> Iterator[Facts]:
    """The parameters of virtual hosts; operator policies and limits are among them."""
    wanted = set(vhosts)
    for one in broker.parameters.entries():
        if one.vhost in wanted and one.component not in _ELSEWHERE:
            yield {
                "component": one.component,
                "vhost": one.vhost,
                "name": one.name,
                "value": one.value,
            }


def global_parameters(broker: Broker) -> Iterator[Facts]:
    """What is set for the whole broker."""
    for one in broker.parameters.global_parameters():
        yield {"name": one.name, "value": one.value}


def policies(vhosts: list[VirtualHost]) -> Iterator[Facts]:
    """The policies of virtual hosts."""
    for vhost in vhosts:
        for policy in vhost.topology.policies.entries(False):
            yield policy_facts((vhost.name, policy))


def queues(vhosts: list[VirtualHost]) -> Iterator[Facts]:
    """All queues that are not exclusive."""
    for vhost in vhosts:
        for queue in list(vhost.queues.values()):
            if queue.exclusive_owner is None:
                yield {
                    "name": queue.name,
                    "vhost": vhost.name,
                    "durable": queue.durable,
                    "auto_delete": queue.auto_delete,
                    "type": queue_type(queue.arguments),
                    "arguments": as_json(queue.arguments),
                }


def exchanges(vhosts: list[VirtualHost]) -> Iterator[Facts]:
    """All exchanges that somebody has declared."""
    for vhost in vhosts:
        for exchange in list(vhost.exchanges.values()):
            if not exchange.name.startswith(RESERVED_PREFIX):
                yield {
                    "name": exchange.name,
                    "vhost": vhost.name,
                    "type": exchange.type_name,
                    "durable": exchange.durable,
                    "auto_delete": exchange.auto_delete,
                    "internal": exchange.internal,
                    "arguments": as_json(exchange.arguments.table),
                }


def bindings(vhosts: list[VirtualHost]) -> Iterator[Facts]:
    """All bindings whose ends are in the export, or predeclared."""
    for vhost in vhosts:
        for binding in vhost.router.bindings():
            queue = vhost.queues.get(binding.destination)
            is_there = queue is not None and queue.exclusive_owner is None
            if binding.to_exchange or is_there:
                yield {
                    "source": binding.source,
                    "vhost": vhost.name,
                    "destination": binding.destination,
                    "destination_type": "exchange" if binding.to_exchange else "queue",
                    "routing_key": binding.key.decode("utf-8", "surrogateescape"),
                    "arguments": as_json(binding.arguments),
                }


def without_vhost(item: Facts) -> Facts:
    """Return an item of a section for any virtual host."""
    return {key: value for key, value in item.items() if key != "vhost"}
