"""What ready messages of all queues take in memory, and which of them a log has.

The pager fills in what is written, the backlogs what they take. Neither knows messages.
"""

from typing import final

from mypy_extensions import i64

from amqpd.broker.delivery import Reference


@final
class MemoryUse:
    """What is ready in memory, of all queues, as `Message.cost` has it.

    What a consumer has unacked is not in it: it could not leave memory anyway.
    """

    __slots__ = ("loaded", "stored", "unstored")

    def __init__(self) -> None:
        # Also in the log: it can be dropped once it is written.
        self.stored: i64 = 0
        # The part of it that was read back, for who wants it soon.
        self.loaded: i64 = 0
        # In no log: it must be paged before it can be dropped.
        self.unstored: i64 = 0


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

    def has_page(self, reference: Reference) -> bool:
        """Whether the paging log has the message of a reference."""
        page = reference.page
        if page < 0 or page >= self.paged_base:
            return False
        return not self.lost_pages or int(page) not in self.lost_pages
