"""Who takes part in a run: a connection for each producer and each consumer.

They are made one after the other and then never wait again. Latencies are of all
together; what arrives is kept by queue, if it is to be verified.
"""

from __future__ import annotations

import selectors
from typing import Final

from pamqp import commands
from pamqp.base import Frame

from amqpd.bench.connection import Connection
from amqpd.bench.consumer import Consumer
from amqpd.bench.conversation import Conversation
from amqpd.bench.errors import CallRefused, ConnectionClosed, Refused, RunFailed
from amqpd.bench.figures import Counts
from amqpd.bench.histogram import Histogram
from amqpd.bench.ledger import QueueLedger
from amqpd.bench.message import CHANNEL, Message
from amqpd.bench.options import Options
from amqpd.bench.pace import Pace
from amqpd.bench.plan import Plan
from amqpd.bench.producer import NO_LIMIT, Producer
from amqpd.bench.topology import Topology
from amqpd.wire.errors import WireError

CONSUMER_TAG: Final = "bench"
#: When nothing can be published until something has come.
NEVER: Final = 1 << 62


class Member:
    """A connection and what it carries."""

    def __init__(self, options: Options, conversation: Conversation, name: str) -> None:
        self.options = options
        self.conversation = conversation
        self.connection: Connection
        #: Whether a method has been sent whose answer has not come yet.
        self.is_waiting = False
        #: Why the broker wants nothing published, if it does not.
        self.blocked: str | None = None
        #: What a selector waits for.
        self.events = selectors.EVENT_READ
        self._name = name

    def connect(self) -> None:
        """Open the connection, the first one or another.

        Raises:
            BenchError: the broker is not there or does not want that.
        """
        connection = Connection(self.options.target, f"amqpd bench: {self._name}")
        try:
            self.prepare(connection)
        except BaseException:
            connection.disconnect()
            raise
        self.connection = connection
        self.is_waiting, self.blocked = False, None
        self.events = selectors.EVENT_READ
        connection.stream(self.conversation)
        self.begin()

    def prepare(self, connection: Connection) -> None:
        """Make the channel what it has to be."""
        raise NotImplementedError

    def begin(self) -> None:
        """Say what comes first when the connection streams."""

    def say(self, method: Frame) -> None:
        """Send a method on the channel; its answer ends the waiting."""
        self.is_waiting = True
        self.conversation.say(CHANNEL, method)
        self.flush()

    def flush(self) -> None:
        """Send what the conversation has written."""
        if len(self.conversation.out):
            self.connection.send(self.conversation.take_output())

    def receive(self, data: bytes, now: int) -> None:
        """Look at what was read.

        Raises:
            RunFailed: the broker ends the conversation, or makes no sense.
        """
        try:
            self.conversation.receive_data(data, now)
        except WireError as error:
            raise RunFailed(
                f"{self._name}: the broker sent what is not AMQP 0-9-1: {error.text}"
            ) from error
        for method in self.conversation.take_methods():
            self._hear(method)

    def _hear(self, method: Frame) -> None:
        if isinstance(method, commands.Connection.Blocked):
            self.blocked = method.reason or "no reason given"
        elif isinstance(method, commands.Connection.Unblocked):
            self.blocked = None
        elif isinstance(method, commands.Connection.Close):
            raise ConnectionClosed(
                self._name, method.reply_code or 0, method.reply_text or ""
            )
        elif isinstance(method, commands.Channel.Close):
            raise RunFailed(
                f"{self._name}: the broker closed the channel: "
                f"{method.reply_code} {method.reply_text}"
            )
        elif isinstance(method, commands.Basic.Cancel):
            raise RunFailed(
                f"{self._name}: the broker cancelled the consumer: "
                "was the queue deleted?"
            )
        else:
            self.is_waiting = False


class Sender(Member):
    """A producer with its connection and its pace."""

    def __init__(self, options: Options, producer: Producer, name: str) -> None:
        super().__init__(options, producer, name)
        self.producer = producer
        self.pace = Pace(options.rate)

    def prepare(self, connection: Connection) -> None:
        """Ask for confirms where they are wanted."""
        if not self.options.confirm:
            return
        try:
            connection.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
        except CallRefused as refused:
            raise Refused(f"no confirms: {refused}") from refused

    def count_now(self, now: int) -> int:
        """Return how many messages it may and should publish now."""
        if self.blocked is not None or self.connection.has_unsent:
            return 0
        producer = self.producer
        due = self.pace.due(now, int(producer.published))
        return min(due, int(producer.allowance()))

    def next_at(self) -> int:
        """Return when it should publish again, if nothing comes meanwhile."""
        if self.blocked is not None or self.connection.has_unsent:
            return NEVER
        if self.producer.allowance() <= 0:
            return NEVER
        return self.pace.next_at(int(self.producer.published))


class Receiver(Member):
    """A consumer with its connection and its queue."""

    def __init__(
        self, options: Options, consumer: Consumer, queue: str, name: str
    ) -> None:
        super().__init__(options, consumer, name)
        self.consumer = consumer
        self._queue = queue

    def prepare(self, connection: Connection) -> None:
        """Set the prefetch."""
        if self.options.prefetch:
            qos = commands.Basic.Qos(0, self.options.prefetch, False)
            connection.call(qos, commands.Basic.QosOk)

    def begin(self) -> None:
        """Consume; deliveries may follow the answer at once."""
        self.say(
            commands.Basic.Consume(
                0, self._queue, CONSUMER_TAG, no_ack=self.options.auto_ack
            )
        )

    def receive(self, data: bytes, now: int) -> None:
        """Look at what was read, and acknowledge what is due."""
        super().receive(data, now)
        self.consumer.end_read()
        self.flush()


class Crew:
    """All producers and consumers of a run."""

    def __init__(
        self,
        options: Options,
        plan: Plan,
        topology: Topology,
        run: int,
        frame_max: int,
    ) -> None:
        self.senders: list[Sender] = []
        self.receivers: list[Receiver] = []
        self.latency = Histogram()
        self.confirm_latency = Histogram()
        self.ledgers: list[QueueLedger] = []
        self._options = options
        self._plan = plan
        self._topology = topology
        self._run = run
        self._frame_max = frame_max
        self._messages: dict[str, Message] = {}
        if options.verify:
            self.ledgers = [
                QueueLedger(plan.producers_of(queue)) for queue in range(options.queues)
            ]

    def open(self) -> None:
        """Connect everybody; consumers first, so that nothing waits for them.

        Raises:
            BenchError: the broker is not there or does not want that.
        """
        for number in range(self._options.consumers):
            receiver = self._receiver(number)
            receiver.connect()
            self.receivers.append(receiver)
        for number in range(self._options.producers):
            sender = self._sender(number)
            sender.connect()
            self.senders.append(sender)

    def reopen(self) -> None:
        """Connect everybody again.

        Raises:
            BenchError: the broker is not there, or not in its right mind.
        """
        for member in self.members():
            member.conversation.restart()
            member.connect()

    def disconnect(self) -> None:
        """Drop all connections."""
        for member in self.members():
            member.connection.disconnect()

    def members(self) -> list[Member]:
        """Return everybody."""
        return [*self.receivers, *self.senders]

    def counts(self) -> Counts:
        """Return what was counted so far."""
        producers = [sender.producer for sender in self.senders]
        consumers = [receiver.consumer for receiver in self.receivers]
        return Counts(
            published=sum(int(each.published) for each in producers),
            confirmed=sum(int(each.confirmed) for each in producers),
            nacked=sum(int(each.nacked) for each in producers),
            delivered=sum(int(each.delivered) for each in consumers),
            redelivered=sum(int(each.redelivered) for each in consumers),
        )

    def expected(self) -> int:
        """Return how many deliveries there are if nothing is lost or refused."""
        expected = 0
        for queue, name in enumerate(self._topology.queues):
            if self._plan.is_consumed(queue):
                expected += self._topology.found.get(name, 0)
        for number, sender in enumerate(self.senders):
            for place, queues in enumerate(self._plan.places(number)):
                reached = sum(1 for queue in queues if self._plan.is_consumed(queue))
                expected += sender.producer.sent_to(place) * reached
        return expected

    def _receiver(self, number: int) -> Receiver:
        options = self._options
        queue = self._plan.queue_of(number)
        consumer = Consumer(
            self._frame_max,
            self._run,
            options.size,
            0 if options.auto_ack else options.ack_every,
            self.latency,
            self.ledgers[queue] if self.ledgers else None,
        )
        name = f"consumer {number + 1}"
        return Receiver(options, consumer, self._topology.queues[queue], name)

    def _sender(self, number: int) -> Sender:
        options = self._options
        producer = Producer(
            self._frame_max,
            number,
            self._run,
            [self._message(queues) for queues in self._plan.places(number)],
            NO_LIMIT if options.count is None else options.count,
            options.confirm,
            self.confirm_latency,
        )
        return Sender(options, producer, f"producer {number + 1}")

    def _message(self, queues: list[int]) -> Message:
        """The message for a place; equal ones are kept once."""
        queue = self._topology.queues[queues[0]]
        message = self._messages.get(queue)
        if message is None:
            options = self._options
            message = self._messages[queue] = Message(
                self._topology.exchange,
                queue,
                self._topology.headers(queue),
                options.persistent,
                options.size,
                self._frame_max,
            )
        return message
