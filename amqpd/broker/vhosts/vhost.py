"""A virtual host: what clients ask of it, and in which order it happens.

The face of the control plane. Every operation takes a `done`, which is called once: at
once when nothing has to be committed and nobody is before it, else when the commit is
complete. Errors arrive there too, so that a caller has one place for answers. What
the operations do is in `queue_changes`, `exchange_changes` and `binding_changes`; what
is declared is in `topology`.
"""

import itertools
from typing import final

from amqpd.broker.arguments import Arguments
from amqpd.broker.exchange import Exchange
from amqpd.broker.policies.vhost_metadata import NO_METADATA, VhostMetadata
from amqpd.broker.queues.queue import Queue
from amqpd.broker.vhosts.access import Access
from amqpd.broker.vhosts.binding_changes import Bind, Unbind
from amqpd.broker.vhosts.exchange_changes import (
    DeclareExchange,
    DeleteExchange,
    Done,
    FindExchange,
)
from amqpd.broker.vhosts.firehose import Firehose
from amqpd.broker.vhosts.queue_changes import (
    CountDone,
    DeclareQueue,
    DeleteQueue,
    FindQueue,
    QueueDone,
    QueueProperties,
)
from amqpd.broker.vhosts.reply_queues import ReplyQueues
from amqpd.broker.vhosts.routes import RouteCache
from amqpd.broker.vhosts.topology import Surroundings, Topology
from routing.binding import Binding
from routing.router import Router


@final
class VirtualHost:
    """One virtual host."""

    def __init__(self, name: str, surroundings: Surroundings) -> None:
        self.name = name
        self._metadata = NO_METADATA
        self.topology = Topology(name, surroundings)
        self.surroundings = surroundings
        self.reply_queues = ReplyQueues(self.topology)
        # By user, since a remembered route is also a verdict on that user.
        self._route_caches: dict[str, RouteCache] = {}
        # While the firehose is on.
        self.firehose: Firehose | None = None

    @property
    def metadata(self) -> VhostMetadata:
        """What is known of it besides its name; it is replaced as a whole."""
        return self._metadata

    @metadata.setter
    def metadata(self, metadata: VhostMetadata) -> None:
        self._metadata = metadata
        self.topology.default_queue_type = metadata.default_queue_type

    @property
    def queues(self) -> dict[str, Queue]:
        """All queues by name."""
        return self.topology.queues

    @property
    def exchanges(self) -> dict[str, Exchange]:
        """All exchanges by name; the default exchange is not among them."""
        return self.topology.exchanges

    @property
    def router(self) -> Router[Queue]:
        """All bindings."""
        return self.topology.router

    @property
    def default_routes(self) -> dict[bytes, Queue]:
        """Queues by the octets of ("", name) in basic.publish."""
        return self.topology.default_routes

    def set_tracing(self, is_on: bool) -> None:
        """Turn the firehose on or off; channels that are open are not told."""
        if is_on == (self.firehose is not None):
            return
        node = self.surroundings.admission.node_limits.node
        self.firehose = Firehose(self.topology, node) if is_on else None
        # Routes remember whether they ask the message.
        for cache in self._route_caches.values():
            cache.clear()

    def route_cache(self, user_name: str) -> RouteCache:
        """The routes that a user has used here."""
        cache = self._route_caches.get(user_name)
        if cache is None:
            cache = RouteCache()
            self._route_caches[user_name] = cache
        return cache

    # -- exchanges ------------------------------------------------------------

    def declare_exchange(self, access: Access, exchange: Exchange, done: Done) -> None:
        """Declare an exchange, or check that it is there as declared."""
        self.topology.line.submit(
            DeclareExchange(self.topology, access, exchange, done)
        )

    def check_exchange(self, name: str, done: Done) -> None:
        """Check that an exchange is there."""
        self.topology.line.submit(FindExchange(self.topology, name, done))

    def delete_exchange(
        self, access: Access, name: str, if_unused: bool, done: Done
    ) -> None:
        """Delete an exchange; one that is not there is deleted already."""
        self.topology.line.submit(
            DeleteExchange(self.topology, access, name, if_unused, done)
        )

    # -- queues ---------------------------------------------------------------

    def declare_queue(
        self, access: Access, name: str, properties: QueueProperties, done: QueueDone
    ) -> None:
        """Declare a queue, or check that it is there as declared.

        An empty name lets the broker choose one.
        """
        self.topology.line.submit(
            DeclareQueue(self.topology, access, name, properties, done)
        )

    def check_queue(self, access: Access, name: str, done: QueueDone) -> None:
        """Check that a queue is there and not locked."""
        self.topology.line.submit(FindQueue(self.topology, access, name, done))

    def find_queue(self, access: Access, name: str) -> Queue:
        """Return a queue to consume from, get from or purge.

        Raises:
            NotFound: there is none.
            ResourceLocked: it belongs to another connection.
        """
        return self.topology.find_queue(access, name)

    def delete_queue(
        self,
        access: Access,
        name: str,
        if_unused: bool,
        if_empty: bool,
        done: CountDone,
    ) -> None:
        """Delete a queue; `done` gets the number of messages that were ready."""
        self.topology.line.submit(
            DeleteQueue(self.topology, access, name, if_unused, if_empty, done)
        )

    def delete_queue_now(self, queue: Queue) -> None:
        """Delete a queue whatever the disk does. Twice is once."""
        self.topology.delete_queue_now(queue)

    def drop_queues(self, count: int) -> bool:
        """Of a virtual host that is deleted: drop so many queues, last what waits.

        Returns whether there are more.
        """
        queues = self.topology.queues
        for name in list(itertools.islice(queues, count)):
            self.topology.delete_queue_now(queues[name])
        if queues:
            return True
        self.topology.close_waiting_rooms()
        return False

    def queue_used(self, queue: Queue) -> None:
        """A client got a message from it, or asked for one."""
        self.topology.queue_used(queue)

    def queue_unused(self, queue: Queue) -> None:
        """The queue has lost its last consumer: an auto-delete queue ends with it."""
        if queue.consumer_count:
            return
        self.topology.queue_used(queue)
        if queue.auto_delete and not self.reply_queues.close(queue):
            self.topology.delete_queue_now(queue)

    # -- bindings -------------------------------------------------------------

    def bind(
        self,
        access: Access,
        source: str,
        destination: str,
        to_exchange: bool,
        key: bytes,
        arguments: Arguments,
        done: Done,
    ) -> None:
        """Bind a queue or an exchange to an exchange."""
        binding = Binding(
            source,
            destination,
            to_exchange,
            key,
            arguments.table,
            arguments.canonical(),
        )
        self.topology.line.submit(Bind(self.topology, access, binding, done))

    def unbind(
        self,
        access: Access,
        source: str,
        destination: str,
        to_exchange: bool,
        key: bytes,
        arguments: Arguments,
        done: Done,
    ) -> None:
        """Undo a binding."""
        binding = Binding(
            source,
            destination,
            to_exchange,
            key,
            arguments.table,
            arguments.canonical(),
        )
        self.topology.line.submit(Unbind(self.topology, access, binding, done))
