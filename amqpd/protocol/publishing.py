"""What one channel publishes: putting content together, routing it, answering for it.

A publish is a method, a header and some bodies. When all of it lies in one read the
connection hands it over in one piece (`publish`); when not, the frames come one by one:

    begin(route) -> take_header(frame) -> take_body(frame) ... -> publish

In both cases the content ends up in the same canonical form (`broker.message`). In
confirm mode every publish takes a number. Numbers that wait for the disk are given to
the log as a range at the end of the read, the others are settled at once; what may be
answered is written with the connection's next output.
"""

from io import BytesIO
from typing import Final, final

from librt.strings import BytesWriter, read_i64_be
from mypy_extensions import i64

from amqpd.broker.clients.traffic import Traffic
from amqpd.broker.delays.delay_queue import only_wait, with_a_way
from amqpd.broker.errors import PreconditionFailed, UnexpectedFrame
from amqpd.broker.messages.message import Message
from amqpd.broker.messages.sender_selected import selected_keys, without_blind_copies
from amqpd.broker.ports import DurabilityWaiter
from amqpd.broker.queues.durability import Durability
from amqpd.broker.queues.queue import Queue
from amqpd.broker.vhosts.deposit import Outcome, check_properties, deposit
from amqpd.broker.vhosts.routes import Route
from amqpd.broker.vhosts.session import Session
from amqpd.protocol.output import Answerer, Output
from amqpd.protocol.sending import write_ack, write_return
from amqpd.protocol.transaction import Transaction
from amqpd.wire.errors import SyntaxMalformed
from amqpd.wire.frames import (
    BODY,
    FRAME_END,
    FRAMED_BODY_SIZE_MAX,
    HEAD_SIZE,
    OVERHEAD,
    read_u16,
    write_head,
)
from amqpd.wire.properties import (
    ASKS_DIRECT_REPLY,
    HAS_BCC,
    HAS_CC,
    HAS_DEATH,
    HAS_DELAY,
    HAS_EXPIRATION,
    HAS_UNKNOWN_MODE,
    HAS_USER_ID,
    walk_properties,
    with_reply_to,
)
from amqpd.wire.rewriting import without_header
from confirms.publisher import PublisherConfirms

BASIC: Final = 60
NO_ROUTE: Final = 312
DEATH: Final = b"x-death"

EXPECTED_METHOD: Final = "expected method frame, got non method frame instead"
EXPECTED_HEADER: Final = (
    "expected content header for class 60, got non content header frame instead"
)
EXPECTED_BODY: Final = "expected content body, got non content body frame instead"

# What of a message has to be looked into before it goes anywhere.
LOOKED_INTO: Final[i64] = (
    ASKS_DIRECT_REPLY
    | HAS_DEATH
    | HAS_EXPIRATION
    | HAS_USER_ID
    | HAS_UNKNOWN_MODE
    | HAS_CC
    | HAS_BCC
)

# Where a content has the size of its body: behind frame head, class and weight.
BODY_SIZE_AT: Final[i64] = HEAD_SIZE + 4

# The shortest content header payload: class, weight, body size, property flags.
HEADER_PAYLOAD_SIZE_MIN: Final = 14


@final
class Publishing(DurabilityWaiter, Answerer):
    """The publishing half of a channel."""

    def __init__(
        self,
        number: i64,
        session: Session,
        output: Output,
        durability: Durability,
        body_size_max: i64,
        touched: "list[Publishing]",
        traffic: Traffic,
    ) -> None:
        self.number: i64 = number
        self.confirms: PublisherConfirms | None = None
        self.transaction: Transaction | None = None
        # Where replies to what is published here go, if the channel consumes them.
        self.reply_queue: Queue | None = None
        # Whether a content has begun and is not complete.
        self.is_receiving = False
        self._session = session
        self._output = output
        self._durability = durability
        self._surroundings = session.vhost.surroundings
        self._keepers = session.vhost.surroundings.keepers
        self._body_size_max: i64 = body_size_max
        self._is_answering = False
        # Who has numbers to hand over when the current read has been processed.
        self._touched = touched
        self._traffic = traffic
        # Of the numbers of confirms: those that were answered negatively.
        self._refused_count: i64 = 0
        # Numbers that wait for the disk and have not been given to the log: 0 is none.
        self._wait_first: i64 = 0
        self._wait_last: i64 = 0
        # The content that is being received.
        self._route: Route | None = None
        self._mandatory = False
        self._header = b""
        # One growing buffer: a body may come in a million frames of one octet. This
        # kind gives away what it holds: a copy of 64 MiB stopped everybody for 30 ms.
        self._received: BytesIO | None = None
        self._missing: i64 = 0
        self._body_size: i64 = 0

    # -- content that comes frame by frame ------------------------------------

    def begin(self, route: Route, mandatory: bool) -> None:
        """A basic.publish came; its content follows."""
        self._route = route
        self._mandatory = mandatory
        self._header = b""
        self.is_receiving = True

    def take_header(self, frame: bytes, now_ms: i64) -> None:
        """A header frame came.

        Raises:
            UnexpectedFrame: no header was due, or one of another class.
            SyntaxMalformed: it is too short to be one.
            PreconditionFailed: it announces a body larger than is allowed.
        """
        if not self.is_receiving:
            raise UnexpectedFrame(EXPECTED_METHOD)
        if self._header:
            raise UnexpectedFrame(EXPECTED_BODY)
        size = check_header(frame, 0, len(frame), self._body_size_max)
        self._header = frame
        self._body_size = size
        self._missing = size
        if size == 0:
            self._complete(frame, None, now_ms)

    def take_body(self, frame: bytes, now_ms: i64) -> None:
        """A body frame came.

        Raises:
            UnexpectedFrame: none was due, or the body is longer than announced.
        """
        if not self.is_receiving:
            raise UnexpectedFrame(EXPECTED_METHOD)
        if not self._header:
            raise UnexpectedFrame(EXPECTED_HEADER)
        size = i64(len(frame)) - OVERHEAD
        self._missing -= size
        if self._missing < 0:
            raise UnexpectedFrame(EXPECTED_BODY)
        if size == self._body_size and size <= FRAMED_BODY_SIZE_MAX:
            # The only one, though it did not come with its header: as it is kept.
            self._complete(self._header + frame, None, now_ms)
            return
        received = self._received
        if received is None:
            received = BytesIO()
            self._received = received
        if size > 0:
            # An empty one is allowed, and any number of them would pile up here.
            received.write(frame[HEAD_SIZE:-1])
        if self._missing:
            return
        body = received.getvalue()
        if self._body_size > FRAMED_BODY_SIZE_MAX:
            self._complete(self._header, body, now_ms)
        else:
            self._complete(_framed(self._header, body), None, now_ms)

    def refuse_method(self) -> None:
        """A method came in the middle of a content.

        Raises:
            UnexpectedFrame: always.
        """
        raise UnexpectedFrame(EXPECTED_BODY if self._header else EXPECTED_HEADER)

    def abandon(self) -> None:
        """Drop the content that has begun: the channel closes."""
        self.is_receiving = False
        self._received = None

    def _complete(self, content: bytes, body: bytes | None, now_ms: i64) -> None:
        """All of a content is there, in its canonical form."""
        route = self._route
        assert route is not None
        header = self._header
        self._received = None
        self.is_receiving = False
        if not route.is_current():
            # The topology changed while the body came in.
            route = self._session.find_route(route.address[:-1])
        facts = walk_properties(header, HEAD_SIZE, len(header) - 1)
        if route.asks_headers:
            route = self._session.find_way(route, header, HEAD_SIZE)
        self.publish(route, self._mandatory, content, body, facts, now_ms)

    # -- a complete message ---------------------------------------------------

    def publish(
        self,
        route: Route,
        mandatory: bool,
        content: bytes,
        body: bytes | None,
        facts: i64,
        now_ms: i64,
    ) -> i64:
        """Route a message; return in how many queues it was put.

        Raises:
            PreconditionFailed: a property that the broker acts on is not valid.
            AccessRefused: a routing key that the message adds may not be used.
        """
        if (
            facts & LOOKED_INTO
            or body is not None
            or route.asks_message
            or self.transaction is not None
        ):
            return self._publish_with_care(
                route, mandatory, content, body, facts, now_ms
            )
        self._traffic.receive(i64(read_i64_be(content, BODY_SIZE_AT)))
        queues = route.queues
        left = queues
        if len(queues) == 1:
            if queues[0].pass_on(route.address, content, self.number, now_ms):
                self._note_passed(1)
                return 1
        elif queues:
            left = self._send_on(route, content, now_ms)
            if not left:
                self._note_passed(len(queues))
                return len(queues)
        message = Message(route.address, content, None, facts, now_ms)
        self._traffic.routed += len(queues) - len(left)
        self.enqueue(message, left, mandatory)
        return len(queues)

    def _send_on(self, route: Route, content: bytes, now_ms: i64) -> list[Queue]:
        """Send a message on where queues need not hold it; return the others."""
        left: list[Queue] = []
        for queue in route.queues:
            if not queue.pass_on(route.address, content, self.number, now_ms):
                left.append(queue)
        return left

    def _note_passed(self, count: i64) -> None:
        """A message has been sent on by so many queues, and is in none."""
        self._traffic.routed += count
        if self.confirms is not None:
            self._take_number(self.confirms, False)

    def _publish_with_care(
        self,
        route: Route,
        mandatory: bool,
        content: bytes,
        body: bytes | None,
        facts: i64,
        now_ms: i64,
    ) -> i64:
        """Publish what has to be looked into, or is not routed by its address alone."""
        if facts & (ASKS_DIRECT_REPLY | HAS_DEATH):
            content = self._rewritten(content, facts)
        message = Message(route.address, content, body, facts, now_ms)
        self._traffic.receive(message.body_size())
        queues = route.queues
        if facts & (HAS_EXPIRATION | HAS_USER_ID | HAS_UNKNOWN_MODE):
            check_properties(message, self._session.user, now_ms)
        if facts & (HAS_CC | HAS_BCC):
            shown = without_blind_copies(message)
            queues = self._session.route_message(shown, selected_keys(message))
            if not (facts & HAS_DELAY and only_wait(queues)):
                # What waits goes by BCC when its time has come.
                message = shown
            self._publish_asked(message, queues, mandatory)
        elif route.asks_message:
            queues = self._session.route_message(message, [])
            if mandatory and facts & HAS_DELAY:
                queues = with_a_way(queues, message)
            self._publish_asked(message, queues, mandatory)
        elif self.transaction is not None:
            self.transaction.add_publish(message, queues, mandatory)
        else:
            self.enqueue(message, queues, mandatory)
        return len(queues)

    def _publish_asked(
        self, message: Message, queues: list[Queue], mandatory: bool
    ) -> None:
        """Publish a message that was asked for its way, and tell when it is taken."""
        if self.transaction is not None:
            self.transaction.add_publish(message, queues, mandatory)
            return
        if self._session.has_met_duplicate():
            is_taken = self._offer(message, queues, mandatory, True)
        else:
            is_taken = self.enqueue(message, queues, mandatory)
        if is_taken:
            self._session.note_taken()

    def enqueue(self, message: Message, queues: list[Queue], mandatory: bool) -> bool:
        """Put a message into its queues; without any, return it if that was asked.

        Returns False if a queue has refused it: it is full.
        """
        if len(queues) == 1:
            # Nearly always: two loops would be 30 instructions more.
            queue = queues[0]
            if queue.can_refuse:
                return self._offer(message, queues, mandatory, False)
            queue.publish(message)
        else:
            for queue in queues:
                if queue.can_refuse:
                    return self._offer(message, queues, mandatory, False)
            message.share_among(max(1, len(queues)))
            for queue in queues:
                queue.publish(message)
        if self._keepers.has_work:
            self._keepers.run()
        self._traffic.routed += len(queues)
        if not queues:
            self._note_unroutable(message, mandatory)
        if self.confirms is not None:
            self._take_number(self.confirms, message.number >= 0)
        return True

    def _note_unroutable(self, message: Message, mandatory: bool) -> None:
        self._traffic.unroutable += 1
        if mandatory:
            self._traffic.returned += 1
            write_return(self._output, self.number, message, NO_ROUTE, b"NO_ROUTE")

    def _offer(
        self, message: Message, queues: list[Queue], mandatory: bool, is_seen: bool
    ) -> bool:
        """Put a message into those of its queues that do not refuse it.

        `is_seen` says that one with its id has been published before.
        """
        outcome = deposit(message, queues, self._keepers)
        self._traffic.routed += len(queues)
        if not queues:
            self._note_unroutable(message, mandatory)
        if self.confirms is not None:
            if outcome is Outcome.REFUSED:
                number = self.confirms.take_number()
                self.confirms.refuse(number, number)
                self._refused_count += 1
                self._answer()
            else:
                # One that has been here before may still wait for the disk.
                waits = is_seen or outcome is Outcome.SEEN or message.number >= 0
                self._take_number(self.confirms, waits)
        return outcome is not Outcome.REFUSED

    def _rewritten(self, content: bytes, facts: i64) -> bytes:
        """The content as the broker lets it be published."""
        if facts & HAS_DEATH and not self._surroundings.keeps_published_deaths:
            content = without_header(content, DEATH)
        if facts & ASKS_DIRECT_REPLY:
            content = self._with_reply_address(content)
        return content

    def _with_reply_address(self, content: bytes) -> bytes:
        """Whoever asks for direct replies gets an address of its own."""
        queue = self.reply_queue
        if queue is None or queue.is_deleted:
            raise PreconditionFailed("fast reply consumer does not exist")
        return with_reply_to(content, queue.name.encode())

    # -- confirms -------------------------------------------------------------

    def _take_number(self, confirms: PublisherConfirms, waits: bool) -> None:
        number = confirms.take_number()
        if not waits:
            confirms.confirm(number, number)
            self._answer()
        elif self._wait_last + 1 == number and self._wait_first:
            self._wait_last = number
        else:
            if self._wait_first:
                self.hand_over_waiting()
            else:
                self._touched.append(self)
            self._wait_first = number
            self._wait_last = number

    def hand_over_waiting(self) -> None:
        """Give the numbers that wait for the disk to the log: a read has ended."""
        if self._wait_first:
            self._durability.wait(self, self._wait_first, self._wait_last)
            self._wait_first = 0

    def on_durable(self, first: i64, last: i64) -> None:
        """An fsync that covers these numbers has returned."""
        if self.confirms is not None:
            self.confirms.confirm(first, last)
            self._answer()

    def on_refused(self, first: i64, last: i64) -> None:
        """The disk would not take these numbers."""
        if self.confirms is not None:
            self.confirms.refuse(first, last)
            self._refused_count += last - first + 1
            self._answer()

    def write_answers(self) -> None:
        """Write the acks and nacks that may go out now."""
        self._is_answering = False
        if self.confirms is None:
            return
        for answer in self.confirms.take_answers():
            write_ack(
                self._output,
                self.number,
                answer.number,
                answer.multiple,
                answer.positive,
            )

    def _answer(self) -> None:
        if not self._is_answering and not self._output.is_closed:
            self._is_answering = True
            self._output.add_answerer(self)

    def count_confirms(self) -> None:
        """Fill in what the numbers of confirms say of the traffic."""
        confirms = self.confirms
        if confirms is not None:
            taken = confirms.next_number - 1
            answered = taken - confirms.unanswered_count
            self._traffic.received_to_confirm = taken
            self._traffic.confirmed = max(0, answered - self._refused_count)

    def close(self) -> None:
        """The channel is closed: nobody is answered any more."""
        self.hand_over_waiting()
        self.abandon()
        self.count_confirms()
        self.confirms = None
        self.transaction = None
        self.reply_queue = None


def check_header(data: bytes, start: i64, end: i64, body_size_max: i64) -> i64:
    """Check the fixed part of the header frame data[start:end]; return the body size.

    Raises:
        SyntaxMalformed: it is too short to be a content header.
        UnexpectedFrame: it is not basic's, or its weight is not 0.
        PreconditionFailed: the body would be larger than `body_size_max`.
    """
    if end - start < HEADER_PAYLOAD_SIZE_MIN + OVERHEAD:
        raise SyntaxMalformed("the content header is cut off")
    class_id = read_u16(data, start + HEAD_SIZE)
    if class_id != BASIC:
        raise UnexpectedFrame(
            "expected content header for class 60, "
            f"got one for class {class_id} instead"
        )
    if read_u16(data, start + HEAD_SIZE + 2):
        raise UnexpectedFrame(EXPECTED_HEADER)
    size = i64(read_i64_be(data, start + HEAD_SIZE + 4))
    if size < 0 or size > body_size_max:
        unsigned = int(size) & 0xFFFFFFFFFFFFFFFF
        raise PreconditionFailed(
            f"message size {unsigned} is larger than configured max size "
            f"{body_size_max}"
        )
    return size


def _framed(header: bytes, body: bytes) -> bytes:
    """The canonical content of a small body that came in pieces."""
    out = BytesWriter()
    out.write(header)
    write_head(out, BODY, read_u16(header, 1), len(body))
    out.write(body)
    out.append(FRAME_END)
    return out.getvalue()
