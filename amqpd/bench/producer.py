"""One producer: publishes to its queues in turn, within its window of confirms.

    publishes   1 2 3 4 5 6 7 8 ...          numbered as the broker numbers them
    queue       a b c a b c a b              three queues in turn
    number in   0 0 0 1 1 1 2 2              what the stamp says, and the ledger counts

Times of publishes that wait for their confirm lie in a ring that is as large as the
window: a place is free again when its number, and every lower one, is confirmed.
"""

from typing import Final, final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from amqpd.bench.conversation import Conversation
from amqpd.bench.histogram import Histogram
from amqpd.bench.message import STAMP_MASK, STAMP_SHIFT, Message
from amqpd.wire.frames import METHOD

BASIC_ACK: Final = 0x003C0050
BASIC_NACK: Final = 0x003C0078
#: More than any run publishes, and far from where a number overflows.
NO_LIMIT: Final[i64] = 1 << 47
#: What is written in one go, and looked at as one moment.
BATCH_OCTETS_MAX: Final[i64] = 65536
BATCH_COUNT_MAX: Final[i64] = 500


@final
class Producer(Conversation):
    """What one producer has published and what the broker has answered."""

    def __init__(
        self,
        frame_max: i64,
        number: i64,
        run: i64,
        messages: list[Message],
        count_max: i64,
        window: i64,
        latency: Histogram,
    ) -> None:
        super().__init__(frame_max)
        self.number = number
        self.published: i64 = 0
        self.confirmed: i64 = 0
        self.nacked: i64 = 0
        #: Answers to what had been answered already, or was never published.
        self.answers_astray: i64 = 0
        self.nacked_numbers: set[int] = set()
        #: Publishes whose connection was lost before they were answered.
        self.abandoned_numbers: set[int] = set()
        self._run = run
        self._messages = messages
        self._count_max = count_max
        self._batch_max = max(1, BATCH_OCTETS_MAX // messages[0].size)
        self._batch_max = min(self._batch_max, BATCH_COUNT_MAX)
        self._window = window
        self._latency = latency
        # Ring: when the publish was written, plus one; 0 is answered.
        self._sent = [0] * int(window)
        # The lowest number without an answer; all below it have theirs.
        self._lowest: i64 = 1
        # What was published on connections that were lost: numbers begin anew.
        self._before: i64 = 0

    @property
    def unconfirmed(self) -> int:
        """How many publishes wait for their answer."""
        if not self._window:
            return 0
        answered = int(self.confirmed + self.nacked)
        return int(self.published) - answered - len(self.abandoned_numbers)

    @property
    def is_done(self) -> bool:
        """Whether all that was to be published is."""
        return self.published >= self._count_max

    def stop(self) -> None:
        """Publish nothing more."""
        self._count_max = self.published

    def allowance(self) -> i64:
        """How many messages may be published now, in one batch."""
        count = min(self._batch_max, self._count_max - self.published)
        if self._window:
            count = min(count, self._lowest + self._window - 1 - self.published)
        return count

    def publish(self, count: i64, now: i64) -> None:
        """Write so many messages, no more than `allowance`."""
        run_and_time = self._run << STAMP_SHIFT | (now & STAMP_MASK)
        sender = self.number << STAMP_SHIFT
        queues: i64 = len(self._messages)
        place = self.published % queues
        number = self.published // queues
        first = self.published
        for _ in range(count):
            self._messages[place].write(self.out, run_and_time, sender | number)
            place += 1
            if place == queues:
                place = 0
                number += 1
        self.published = first + count
        if self._window:
            self._note_sent(first + 1, self.published, now)

    def sent_to(self, place: int) -> int:
        """How many messages its queue at that place has been sent."""
        queues = len(self._messages)
        return (int(self.published) + queues - 1 - place) // queues

    def fate(self, place: int, number: int) -> str:
        """What the broker said of a message: "", "confirmed", "nacked", "abandoned"."""
        publish = number * len(self._messages) + place + 1
        if not self._window:
            return ""
        if publish in self.nacked_numbers:
            return "nacked"
        if publish in self.abandoned_numbers:
            return "abandoned"
        is_open = publish >= self._lowest and self._sent[publish % self._window]
        return "" if is_open else "confirmed"

    def restart(self) -> None:
        """The connection was lost, and what waited for its answer gets none."""
        super().restart()
        if not self._window:
            return
        for number in range(self._lowest, self.published + 1):
            at = number % self._window
            if self._sent[at]:
                self._sent[at] = 0
                self.abandoned_numbers.add(number)
        self._lowest = self.published + 1
        self._before = self.published

    def on_frame(self, kind: i64, data: bytes, start: i64, end: i64) -> None:
        """A frame has come; answers to publishes are counted here."""
        if kind == METHOD:
            method = i64(read_i32_be(data, start))
            if method in (BASIC_ACK, BASIC_NACK):
                is_multiple = i64(data[start + 12]) & 1 == 1
                number = read_i64_be(data, start + 4)
                self._on_answer(number, is_multiple, method == BASIC_ACK)
                return
        super().on_frame(kind, data, start, end)

    def _note_sent(self, first: i64, last: i64, now: i64) -> None:
        # One object for all of them.
        moment: int = now + 1
        at = first % self._window
        for _ in range(last - first + 1):
            self._sent[at] = moment
            at += 1
            if at == self._window:
                at = 0

    def _on_answer(self, number: i64, is_multiple: bool, is_ack: bool) -> None:
        if number == 0 and is_multiple:
            number = self.published
        else:
            number += self._before
        if number < self._lowest or number > self.published or not self._window:
            self.answers_astray += 1
            return
        if is_multiple:
            for each in range(self._lowest, number + 1):
                self._settle(each, is_ack)
        elif not self._settle(number, is_ack):
            self.answers_astray += 1
        while (
            self._lowest <= self.published
            and not self._sent[self._lowest % self._window]
        ):
            self._lowest += 1

    def _settle(self, number: i64, is_ack: bool) -> bool:
        at = number % self._window
        moment = i64(self._sent[at])
        if not moment:
            return False
        self._sent[at] = 0
        if is_ack:
            self.confirmed += 1
            self._latency.record(self.now - moment + 1, 1)
        else:
            self.nacked += 1
            self.nacked_numbers.add(number)
        return True
