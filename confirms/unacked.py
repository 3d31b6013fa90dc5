"""What a channel has delivered and not had back: delivery tag -> entry.

Tags rise by one, so the entries lie in a list and a tag is an index:

    tag           41    42    43    44    45
    _entries    [None, None,  c,   None,  e ]      _base = 41, next_tag = 46
                             head

What is taken leaves a hole. The holes in front of the head are cut off now and then,
so a channel that acks in order keeps a short list. One message that stays unacked for
an hour would keep a list of everything delivered since; when a list is mostly holes,
what is left of it moves into a dictionary (`_stragglers`) and the list begins anew.
Each entry moves at most once, so every operation stays O(1) per entry, and memory is
bounded by what is outstanding.

The entry is opaque (a consumer, a queue, a message: whatever the caller needs when
the tag comes back) and is never None.
"""

from typing import Final, Generic, TypeVar, final

from mypy_extensions import i64

from confirms.errors import UnknownDeliveryTag

Entry = TypeVar("Entry")

#: The list is looked over whenever it has grown to this many slots, or to twice what
#: the last look left in it.
_SLOTS_MIN: Final = 128


@final
class Unacked(Generic[Entry]):
    """The deliveries of one channel that await an acknowledgement."""

    __slots__ = (
        "_base",
        "_entries",
        "_head",
        "_slots_max",
        "_stragglers",
        "count",
        "next_tag",
    )

    def __init__(self) -> None:
        self.next_tag: i64 = 1
        self.count: i64 = 0
        self._entries: list[Entry | None] = []
        self._base: i64 = 1  # tag of _entries[0]
        self._head: i64 = 0  # no entry before this index
        self._slots_max: i64 = _SLOTS_MIN
        self._stragglers: dict[int, Entry] = {}  # all tags below _base

    def add(self, entry: Entry) -> i64:
        """Remember a delivery; return its tag."""
        tag = self.next_tag
        if tag - self._base >= self._slots_max:
            self._tidy()
        self._entries.append(entry)
        self.next_tag = tag + 1
        self.count += 1
        return tag

    def skip(self, count: i64) -> i64:
        """Use up `count` tags for deliveries that need no ack; return the first."""
        first = self.next_tag
        self.next_tag = first + count
        if self._entries:
            self._retire()
        else:
            self._base = self.next_tag
        return first

    def take(self, tag: i64) -> Entry:
        """Remove and return the entry of one tag.

        Raises:
            UnknownDeliveryTag: there is none (any more).
        """
        index = tag - self._base
        if index < self._head or index >= i64(len(self._entries)):
            return self._take_straggler(tag)
        entry = self._entries[index]
        if entry is None:
            raise UnknownDeliveryTag(tag)
        self._entries[index] = None
        self.count -= 1
        if index == self._head:
            self._move_head(index + 1)
        return entry

    def take_through(self, tag: i64) -> list[Entry]:
        """Remove and return all entries up to this tag, in tag order; 0 means all.

        Raises:
            UnknownDeliveryTag: the tag itself is not outstanding, which RabbitMQ asks
                for as well; nothing is removed then.
        """
        if tag == 0:
            return self.take_all()
        index = tag - self._base
        if index < self._head or index >= i64(len(self._entries)):
            if tag not in self._stragglers:
                raise UnknownDeliveryTag(tag)
            return self._take_stragglers_through(tag)
        if self._entries[index] is None:
            raise UnknownDeliveryTag(tag)
        return self._take_slots_through(index)

    def take_all(self) -> list[Entry]:
        """Remove and return all entries in tag order."""
        return self._take_slots_through(i64(len(self._entries)) - 1)

    def outstanding_before(self, tag: i64) -> list[Entry]:
        """Return the entries of all lower tags, in tag order; they stay."""
        stragglers = self._stragglers
        found = [stragglers[one] for one in sorted(stragglers) if one < tag]
        entries = self._entries
        end = min(tag - self._base, i64(len(entries)))
        position = self._head
        while position < end:
            entry = entries[position]
            if entry is not None:
                found.append(entry)
            position += 1
        return found

    def restore(self, tag: i64, entry: Entry) -> None:
        """Put back what was taken under this tag; it is outstanding as before."""
        assert 0 < tag < self.next_tag, "only what was delivered can come back"
        index = tag - self._base
        if index < 0:
            self._stragglers[tag] = entry
        else:
            self._entries[index] = entry
            if index < self._head:
                self._head = index
        self.count += 1

    def _take_slots_through(self, index: i64) -> list[Entry]:
        """Take all stragglers and all entries up to this index of the list."""
        taken: list[Entry] = []
        if self._stragglers:
            taken = self._take_stragglers_through(self._base)
        entries = self._entries
        position = self._head
        while position <= index:
            entry = entries[position]
            if entry is not None:
                taken.append(entry)
                entries[position] = None
                self.count -= 1
            position += 1
        self._move_head(position)
        return taken

    def _take_straggler(self, tag: i64) -> Entry:
        entry = self._stragglers.pop(tag, None)
        if entry is None:
            raise UnknownDeliveryTag(tag)
        self.count -= 1
        return entry

    def _take_stragglers_through(self, tag: i64) -> list[Entry]:
        # In order already, unless a rollback put something back: then sort() is O(n).
        taken = []
        for straggler in sorted(self._stragglers):
            if straggler > tag:
                break
            taken.append(self._stragglers.pop(straggler))
        self.count -= i64(len(taken))
        return taken

    def _move_head(self, head: i64) -> None:
        """Let the head stand on the first entry at or behind `head`."""
        entries = self._entries
        end: i64 = len(entries)
        while head < end and entries[head] is None:
            head += 1
        self._head = head

    def _tidy(self) -> None:
        """Shorten the list: cut the holes in front, or move what is left of it."""
        # Holes in front cost nothing to cut off: those behind the head count.
        slots = i64(len(self._entries)) - self._head
        outstanding = self.count - i64(len(self._stragglers))
        if outstanding * 4 <= slots:
            self._retire()
        else:
            del self._entries[: self._head]
            self._base += self._head
            self._head = 0
        self._slots_max = max(_SLOTS_MIN, i64(len(self._entries)) * 2)

    def _retire(self) -> None:
        """Move what is outstanding among the stragglers and begin a new list."""
        entries = self._entries
        end: i64 = len(entries)
        index = self._head
        while index < end:
            entry = entries[index]
            if entry is not None:
                self._stragglers[self._base + index] = entry
            index += 1
        entries.clear()
        self._base = self.next_tag
        self._head = 0
