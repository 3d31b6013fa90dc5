"""One consumer: takes deliveries apart, measures them, acknowledges them.

A delivery is three frames or more, and comes as it likes: deliver, header, body. The
first body frame begins with the stamp. All messages of one read came at the same
moment, and those of one batch were sent at the same moment, so equal latencies are
counted together.

Only with a ledger is anything checked; without, a message costs its stamp.
"""

from typing import Final, final

from librt.strings import (
    read_i32_be,
    read_i64_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i64

from amqpd.bench.conversation import Conversation
from amqpd.bench.histogram import Histogram
from amqpd.bench.ledger import Order, QueueLedger
from amqpd.bench.message import (
    CHANNEL,
    STAMP_MASK,
    STAMP_SHIFT,
    STAMP_SIZE,
    body_after_stamp,
)
from amqpd.wire.frames import BODY, FRAME_END, HEADER, METHOD, write_head

BASIC_DELIVER: Final = 0x003C003C
BASIC_ACK: Final = 0x003C0050


@final
class Consumer(Conversation):
    """What one consumer has received, and what was wrong with it."""

    def __init__(
        self,
        frame_max: i64,
        run: i64,
        size: i64,
        ack_every: i64,
        latency: Histogram,
        ledger: QueueLedger | None,
    ) -> None:
        super().__init__(frame_max)
        self.delivered: i64 = 0
        self.redelivered: i64 = 0
        #: Published by somebody else, or for another queue.
        self.strange: i64 = 0
        #: Of another size or content than they were published with.
        self.damaged: i64 = 0
        self.doubled: i64 = 0
        self.out_of_order: i64 = 0
        #: When the last message came.
        self.last_at: i64 = 0
        self._run = run
        self._size = size
        self._rest = body_after_stamp(size)
        self._ack_every = ack_every
        self._latency = latency
        self._ledger = ledger
        self._order = Order()
        # Whether something may come again that was not acknowledged in time.
        self._may_repeat = False
        # The delivery that is being received.
        self._delivery_tag: i64 = 0
        self._is_redelivered = False
        self._body_size: i64 = 0
        self._body_taken: i64 = 0
        self._stamp_first: i64 = 0
        self._stamp_second: i64 = 0
        self._is_sound = True
        # The last one acknowledged, and a latency with the number of its messages.
        self._acked: i64 = 0
        self._alike: i64 = 0
        self._alike_count: i64 = 0

    def on_frame(self, kind: i64, data: bytes, start: i64, end: i64) -> None:
        """A frame has come; those of a delivery are for us."""
        if kind == BODY:
            self._on_body(data, start, end)
        elif kind == HEADER:
            self._body_size = read_i64_be(data, start + 4)
            self._body_taken = 0
            self._is_sound = self._body_size == self._size
            self._stamp_first = 0
            if not self._body_size:
                self._on_message()
        elif kind == METHOD and i64(read_i32_be(data, start)) == BASIC_DELIVER:
            at = start + 5 + i64(data[start + 4])
            self._delivery_tag = read_i64_be(data, at)
            self._is_redelivered = data[at + 8] != 0
        else:
            super().on_frame(kind, data, start, end)

    def restart(self) -> None:
        """The connection was lost: what was not acknowledged comes again."""
        super().restart()
        self._order = Order()
        self._may_repeat = True
        self._delivery_tag = 0
        self._acked = 0

    def end_read(self) -> None:
        """Everything that was read is looked at: count what was put off."""
        if self._alike_count:
            self._latency.record(self._alike, self._alike_count)
            self._alike_count = 0

    def acknowledge_rest(self) -> None:
        """Acknowledge what has not been for want of enough."""
        if self._ack_every and self._acked < self._delivery_tag:
            self._acknowledge()

    def _on_body(self, data: bytes, start: i64, end: i64) -> None:
        size = end - start
        if self._body_taken:
            if self._ledger is not None and self._is_sound:
                at = self._body_taken - STAMP_SIZE
                self._is_sound = data[start:end] == self._rest[at : at + size]
        elif size < STAMP_SIZE:
            self._is_sound = False
        else:
            self._stamp_first = read_i64_be(data, start)
            self._stamp_second = read_i64_be(data, start + 8)
            if self._ledger is not None and self._is_sound:
                self._check_first(data[start + STAMP_SIZE : end])
        self._body_taken += size
        if self._body_taken >= self._body_size:
            self._on_message()

    def _check_first(self, part: bytes) -> None:
        # Most bodies are one frame: no second copy then.
        rest = self._rest
        self._is_sound = part == (rest if len(part) == len(rest) else rest[: len(part)])

    def _on_message(self) -> None:
        self.delivered += 1
        self.last_at = self.now
        if self._is_redelivered:
            self.redelivered += 1
        if self._stamp_first >> STAMP_SHIFT == self._run:
            self._count_latency(self.now - (self._stamp_first & STAMP_MASK))
            if self._ledger is not None:
                self._check(self._ledger)
        elif self._ledger is not None:
            self.strange += 1
        if self._ack_every and self._delivery_tag - self._acked >= self._ack_every:
            self._acknowledge()

    def _count_latency(self, latency: i64) -> None:
        if latency != self._alike:
            self.end_read()
            self._alike = latency
        self._alike_count += 1

    def _check(self, ledger: QueueLedger) -> None:
        if not self._is_sound:
            self.damaged += 1
        producer = self._stamp_second >> STAMP_SHIFT
        number = self._stamp_second & STAMP_MASK
        arrivals = ledger.arrivals.get(producer)
        if arrivals is None:
            self.strange += 1
        elif not arrivals.is_new(number):
            # What comes back may come twice; that is what the flag is for. A broker
            # that was killed may have forgotten that it had delivered.
            if not self._is_redelivered and not self._may_repeat:
                self.doubled += 1
        elif not self._order.is_kept(producer, number) and not self._is_redelivered:
            self.out_of_order += 1

    def _acknowledge(self) -> None:
        write_head(self.out, METHOD, CHANNEL, 13)
        write_i32_be(self.out, BASIC_ACK)
        write_i64_be(self.out, self._delivery_tag)
        # One message needs no "multiple".
        self.out.append(0 if self._delivery_tag == self._acked + 1 else 1)
        self.out.append(FRAME_END)
        self._acked = self._delivery_tag
