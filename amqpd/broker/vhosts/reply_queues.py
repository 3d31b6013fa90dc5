"""Direct reply-to: queues that nobody declares, one for each channel that asks for it.

A channel that consumes from `amq.rabbitmq.reply-to` gets a queue of its own under a
name that nobody can guess, and the broker writes that name into the reply-to property
of what the channel publishes. Whoever has got it sends the answer there by the default
exchange, from any connection:

    requester   consume amq.rabbitmq.reply-to    -> queue amq.rabbitmq.reply-to.Zr1...
                publish reply-to=amq.rabbitmq.reply-to     (Zr1... is written into it)
    responder   publish "" amq.rabbitmq.reply-to.Zr1...    -> straight to the requester

It is an ordinary transient queue in all that concerns messages, so answers are handed
out in turns, wait while the requester does not read, and are never stored. But it
stands in no list of queues: nothing can be asked of it by name but whether it is there,
and it ends with its only consumer. What a channel may do is the protocol's business.
"""

from typing import Final, final

from amqpd.broker.arguments import Arguments
from amqpd.broker.errors import NotFound
from amqpd.broker.queues.queue import Queue
from amqpd.broker.queues.queue_rules import NO_RULES
from amqpd.broker.vhosts.topology import Topology, default_route_key
from amqpd.wire.properties import DIRECT_REPLY_TO

REPLY_TO: Final = DIRECT_REPLY_TO.decode()
REPLY_TO_PREFIX: Final = f"{REPLY_TO}."


def is_reply_name(name: str) -> bool:
    """Whether a name means direct reply-to, whoever it belongs to."""
    return name == REPLY_TO or name.startswith(REPLY_TO_PREFIX)


@final
class ReplyQueues:
    """The reply queues of one virtual host."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._queues: dict[str, Queue] = {}

    def open(self) -> Queue:
        """Make a queue for somebody who will be its only consumer."""
        surroundings = self._topology.surroundings
        queue = self._topology.new_queue(
            surroundings.take_transient_id(),
            surroundings.new_name(REPLY_TO_PREFIX),
            False,
            True,
            None,
            Arguments({}, b""),
            NO_RULES,
        )
        self._queues[queue.name] = queue
        self._topology.default_routes[default_route_key(queue.name)] = queue
        return queue

    def close(self, queue: Queue) -> bool:
        """End a queue whose consumer is gone; return whether it was one of these."""
        if self._queues.get(queue.name) is not queue:
            return False
        del self._queues[queue.name]
        del self._topology.default_routes[default_route_key(queue.name)]
        queue.delete()
        return True

    def check(self, name: str) -> None:
        """Check that somebody awaits replies under that name.

        Raises:
            NotFound: nobody does (any more).
        """
        if name != REPLY_TO and name not in self._queues:
            raise NotFound(f"no {self._topology.queue_resource(name)}")
