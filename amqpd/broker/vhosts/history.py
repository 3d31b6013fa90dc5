"""Sending the history of an exchange along a binding that has just been made.

An `x-recent-history` exchange keeps its last messages for newcomers. A queue gets them
at once, oldest first; what is bound behind another exchange gets what that one sends
its way. They are messages of their own, with the age and the deadline of the first.
"""

from amqpd.broker.messages.message import Message
from amqpd.broker.messages.routed_message import RoutedMessage
from amqpd.broker.queues.queue import Queue
from amqpd.broker.vhosts.topology import Topology
from routing.binding import Binding


def replay_history(topology: Topology, binding: Binding) -> None:
    """Send what the source of the binding keeps, if it keeps anything."""
    for kept in topology.router.history(binding.source):
        assert isinstance(kept, RoutedMessage)
        queues = _queues(topology, binding, kept)
        if queues:
            message = _again(kept.message)
            message.share_among(len(queues))
            for queue in queues:
                queue.publish(message)
            topology.surroundings.keepers.run()


def _queues(topology: Topology, binding: Binding, kept: RoutedMessage) -> list[Queue]:
    if binding.to_exchange:
        return topology.router.resolve(binding.destination, kept).destinations
    return [topology.queues[binding.destination]]


def _again(first: Message) -> Message:
    """A message has one number in the log, and this one may be stored again."""
    message = Message(
        first.address, first.content, first.body, first.facts, first.enqueued_ms
    )
    message.expires_ms = first.expires_ms
    return message
