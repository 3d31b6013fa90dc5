"""The event exchange: what comes, goes and changes is published, for who binds to it.

    queue made, user deleted, ...  >  note  >  next turn  >  a message for each

A topic exchange of one virtual host; the routing key says what has happened, the
headers to whom. While nothing is bound to it nothing is noted. What is noted is
published in the next turn, since it may be about the very queue that would get it, in
the middle of its deletion.

The keys and headers are those of RabbitMQ's plugin.
"""

import logging
from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.arguments import queue_type
from amqpd.broker.exchange import Exchange
from amqpd.broker.queues.delivery import Consumer
from amqpd.broker.queues.queue import Queue
from amqpd.broker.timers import NEVER_MS, Timed, Timers
from amqpd.wire.tables import Table
from routing.binding import Binding

logger = logging.getLogger(__name__)

EXCHANGE: Final = "amq.rabbitmq.event"

#: Who does what nobody has asked for, in RabbitMQ's words.
INTERNAL_USER: Final = "rmq-internal"


class EventOutlet:
    """Who publishes events."""

    def is_wanted(self) -> bool:
        """Whether anybody would get them."""
        raise NotImplementedError

    def publish(self, key: str, headers: Table, now_ms: i64) -> None:
        """Publish one."""
        raise NotImplementedError


@final
class Events(Timed):
    """Notes events and has them published."""

    def __init__(self, timers: Timers) -> None:
        super().__init__()
        #: None: there is no event exchange.
        self.outlet: EventOutlet | None = None
        self._timers = timers
        self._pending: list[tuple[str, Table, int]] = []

    @property
    def is_wanted(self) -> bool:
        """Whether anybody wants to know: else what there is to say is not put together.

        Asked by whoever notes something.
        """
        return self.outlet is not None and self.outlet.is_wanted()

    def note(self, key: str, headers: Table) -> None:
        """Something has happened; it is published with the next turn."""
        now_ms = int(self._timers.now_ms)
        self._pending.append((key, {"timestamp_in_ms": now_ms, **headers}, now_ms))
        self._timers.start(self)

    # -- what may happen ------------------------------------------------------

    def queue_created(self, queue: Queue, user: str) -> None:
        """A queue was declared that had not been there."""
        if self.is_wanted:
            headers: Table = {
                "name": queue.name,
                "vhost": queue.vhost_name,
                "durable": queue.durable,
                "auto_delete": queue.auto_delete,
                "exclusive": queue.exclusive_owner is not None,
                "arguments": queue.arguments,
                "type": queue_type(queue.arguments),
                "user_who_performed_action": user,
            }
            self.note("queue.created", headers)

    def queue_deleted(self, queue: Queue, user: str, gone: list[Binding]) -> None:
        """A queue is gone, and the bindings to it."""
        if self.is_wanted:
            for binding in gone:
                self.binding_deleted(binding, queue.vhost_name, user)
            self.note("queue.deleted", _named(queue.name, queue.vhost_name, user))

    def exchange_created(self, exchange: Exchange, vhost: str, user: str) -> None:
        """An exchange was declared that had not been there."""
        if self.is_wanted:
            headers: Table = {
                "name": exchange.name,
                "vhost": vhost,
                "type": exchange.type_name,
                "durable": exchange.durable,
                "auto_delete": exchange.auto_delete,
                "internal": exchange.internal,
                "arguments": exchange.arguments.table,
                "user_who_performed_action": user,
            }
            self.note("exchange.created", headers)

    def exchange_deleted(self, name: str, vhost: str, gone: list[Binding]) -> None:
        """An exchange is gone, and the bindings from it and to it."""
        if self.is_wanted:
            for binding in gone:
                self.binding_deleted(binding, vhost, INTERNAL_USER)
            self.note("exchange.deleted", _named(name, vhost, INTERNAL_USER))

    def binding_created(self, binding: Binding, vhost: str, user: str) -> None:
        """Something was bound that had not been."""
        if self.is_wanted:
            self.note("binding.created", _of_binding(binding, vhost, user))

    def binding_deleted(self, binding: Binding, vhost: str, user: str) -> None:
        """A binding is gone."""
        if self.is_wanted:
            self.note("binding.deleted", _of_binding(binding, vhost, user))

    def consumer_created(
        self, consumer: Consumer, queue: Queue, channel: str, user: str
    ) -> None:
        """Somebody consumes from a queue."""
        if self.is_wanted:
            headers: Table = {
                "consumer_tag": consumer.tag,
                "queue": queue.name,
                "vhost": queue.vhost_name,
                "channel": channel,
                "exclusive": consumer.exclusive,
                "ack_required": not consumer.no_ack,
                "prefetch_count": int(consumer.prefetch),
                "arguments": consumer.arguments,
                "user_who_performed_action": user,
            }
            self.note("consumer.created", headers)

    def consumer_deleted(self, tag: str, queue: Queue, channel: str, user: str) -> None:
        """Somebody consumes no more."""
        if self.is_wanted:
            headers: Table = {
                "consumer_tag": tag,
                "queue": queue.name,
                "vhost": queue.vhost_name,
                "channel": channel,
                "user_who_performed_action": user,
            }
            self.note("consumer.deleted", headers)

    def tell(self, key: str, headers: Table) -> None:
        """Note what takes no effort to say."""
        if self.is_wanted:
            self.note(key, headers)

    def on_start(self, now_ms: i64) -> i64:
        """Publish what has been noted."""
        pending = self._pending
        self._pending = []
        outlet = self.outlet
        if outlet is not None:
            for key, headers, noted_ms in pending:
                try:
                    outlet.publish(key, headers, noted_ms)
                except ValueError as error:
                    # A value that no table can hold, as JSON may have it.
                    logger.warning("the event %s is not published: %s", key, error)
        return NEVER_MS


def _named(name: str, vhost: str, user: str) -> Table:
    return {"name": name, "vhost": vhost, "user_who_performed_action": user}


def _of_binding(binding: Binding, vhost: str, user: str) -> Table:
    return {
        "source_name": binding.source,
        "source_kind": "exchange",
        "destination_name": binding.destination,
        "destination_kind": "exchange" if binding.to_exchange else "queue",
        "routing_key": binding.key.decode("utf-8", "replace"),
        "arguments": binding.arguments,
        "vhost": vhost,
        "user_who_performed_action": user,
    }
