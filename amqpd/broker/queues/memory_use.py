"""What ready messages of all queues take in memory, and which of them a log has.

The pager fills in what is written, the backlogs what they take. Neither knows messages.
"""

from typing import final

from mypy_extensions import i64

from amqpd.broker.queues.delivery import Reference


@final
class MemoryUse:
    """What messages of all queues take in memory, as `Message.cost` has it."""

    __slots__ = ("loaded", "stored", "unacked", "unstored")

    def __init__(self) -> None:
        # Also in the log: it can be dropped once it is written.
        self.stored: i64 = 0
        # The part of it that was read back, for who wants it soon.
        self.loaded: i64 = 0
        # In no log: it must be paged before it can be dropped.
        self.unstored: i64 = 0
        # With a consumer, whatever has it: it cannot leave memory, so others must.
        self.unacked: i64 = 0

    @property
    def total(self) -> i64:
        """All of it."""
        return self.stored + self.unstored + self.unacked


@final
class Written:
    """Which messages are in a log with all their bytes: those with lower numbers."""

    __slots__ = ("lost_pages", "paged_base", "stored_base")

    def __init__(self) -> None:
        self.stored_base: i64 = 0
        self.paged_base: i64 = 0
        # Numbers that the paging log could not write after all. It would not take
        # them a second time, so these messages stay in memory.
        self.lost_pages: set[int] = set()

    def has(self, reference: Reference, is_durable: bool) -> bool:
        """Whether a log has the message of a reference of a queue, durable or not."""
        number = reference.message.number
        if is_durable and number >= 0:
            return number < self.stored_base
        return self.has_page(reference)

    def has_page(self, reference: Reference) -> bool:
        """Whether the paging log has the message of a reference."""
        page = reference.page
        if page < 0 or page >= self.paged_base:
            return False
        return not self.lost_pages or int(page) not in self.lost_pages
