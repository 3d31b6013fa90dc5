"""Deduplication: a message whose id has come before goes no further.

The id is what the message says in a header, `x-deduplication-header` or another one
that is named. Who has none is never a duplicate. Exchanges and queues can each have
`SeenIds`, which remember a number of ids, the latest, each for a time:

    new message > has it been seen? > yes: nowhere
                                    > no:  on, and once it has been taken: add it

An id must not be remembered before its message has been taken. A publisher who is told
that it was not, publishes it again, and that one must not be taken for a duplicate. So
a table only notes in the `Ledger` what it has let through, whoever publishes settles
that afterwards, and when the disk has refused what had been settled already, all ids
are forgotten: at the worst a duplicate is let through. Nor may a duplicate be confirmed
before the disk has the first one, so whoever routes is told that it is one.

Only what a client publishes is compared. A message that has been delayed, or comes back
as a dead letter, is the same message and no duplicate. All of it is in memory: after a
restart every id is new.
"""

from hashlib import blake2b
from typing import Final, final

from mypy_extensions import i64

from routing.binding import Binding, BindingTable, Target
from routing.errors import ArgumentsInvalid
from routing.routable import Routable

#: The type of exchange that RabbitMQ's plugin has, and the argument of all others.
DEDUPLICATION: Final = "x-message-deduplication"
_SIZE_ARGUMENT: Final = "x-cache-size"
_TTL_ARGUMENT: Final = "x-cache-ttl"
_HEADER_ARGUMENT: Final = "x-deduplication-header"
_SIZE_DEFAULT: Final = 128
# Longer ids are remembered by their hash.
_ID_SIZE_MAX: Final = 64
_FOR_EVER_MS: Final[i64] = 1 << 62


@final
class Ledger:
    """What has been let through and not taken yet, and what is to be forgotten."""

    def __init__(self) -> None:
        self.forgotten_count: i64 = 0
        self._routable: Routable | None = None
        self._seen: list[SeenIds] = []

    def note(self, seen: "SeenIds", routable: Routable) -> None:
        """A message that is new to `seen` goes on its way."""
        if self._routable is not routable:
            self._routable = routable
            self._seen = []
        self._seen.append(seen)

    def settle(self, routable: Routable) -> None:
        """A message has been taken: if it was the last one, remember its id."""
        if self._routable is routable:
            for seen in self._seen:
                seen.add(routable)
            self._routable = None
            self._seen = []

    def forget_all(self) -> None:
        """What was taken has been lost, and may come again."""
        self.forgotten_count += 1


@final
class SeenIds:
    """The ids that have come to one exchange or queue lately."""

    def __init__(self, arguments: dict[str, object], ledger: Ledger) -> None:
        """Remember as these checked arguments say."""
        header = arguments.get(_HEADER_ARGUMENT)
        self._header = header if isinstance(header, str) else _HEADER_ARGUMENT
        self._size_max: i64 = _number(arguments, _SIZE_ARGUMENT, _SIZE_DEFAULT)
        self._ttl_ms: i64 = _number(arguments, _TTL_ARGUMENT, 0)
        self._ledger = ledger
        self._forgotten_count: i64 = ledger.forgotten_count
        # Until when each is known, in the order in which they came.
        self._until_ms: dict[str, int] = {}

    def has(self, routable: Routable) -> bool:
        """Whether the id of a message is known."""
        identity = self._identity(routable)
        if identity is None:
            return False
        if self._forgotten_count != self._ledger.forgotten_count:
            self._forgotten_count = self._ledger.forgotten_count
            self._until_ms.clear()
        return self._until_ms.get(identity, 0) > routable.now_ms()

    def add(self, routable: Routable) -> None:
        """A message with this id, if it has one, has been taken."""
        identity = self._identity(routable)
        if identity is None:
            return
        ttl_ms: i64 = _number(routable.headers(), _TTL_ARGUMENT, int(self._ttl_ms))
        known = self._until_ms
        # As the latest one, also if it was known longer ago than its time.
        known.pop(identity, None)
        known[identity] = int(routable.now_ms() + ttl_ms if ttl_ms else _FOR_EVER_MS)
        if len(known) > self._size_max:
            del known[next(iter(known))]

    def _identity(self, routable: Routable) -> str | None:
        value = routable.headers().get(self._header)
        if value is None:
            return None
        text = str(value)
        if len(text) <= _ID_SIZE_MAX:
            return text
        return blake2b(text.encode("utf-8", "surrogatepass")).hexdigest()


@final
class DeduplicatingTable(BindingTable):
    """The bindings of an exchange of any type, and the ids that came to it."""

    def __init__(
        self, arguments: dict[str, object], inner: BindingTable, ledger: Ledger
    ) -> None:
        super().__init__(arguments)
        # Every message may have an id.
        self.asks_message = True
        self.inner = inner
        self._seen = SeenIds(arguments, ledger)
        self._ledger = ledger

    def add(self, binding: Binding, target: Target) -> None:
        self.inner.add(binding, target)

    def remove(self, binding: Binding) -> None:
        self.inner.remove(binding)

    def match(self, routable: Routable, found: list[Target]) -> None:
        if routable.is_new:
            if self._seen.has(routable):
                routable.is_duplicate = True
                return
            self._ledger.note(self._seen, routable)
        self.inner.match(routable, found)


def is_deduplicating(type_name: str, arguments: dict[str, object]) -> bool:
    """Whether an exchange of that type, declared like that, compares ids."""
    return type_name == DEDUPLICATION or arguments.get(DEDUPLICATION) is True


def check_deduplication(type_name: str, arguments: dict[str, object]) -> None:
    """Check the arguments of an exchange that compares ids (the plugin's texts).

    Raises:
        ArgumentsInvalid: a size or a time makes no sense, or the size is missing where
            RabbitMQ's plugin wants one.
    """
    is_wanted = _SIZE_ARGUMENT in arguments or type_name == DEDUPLICATION
    if is_wanted and not _number(arguments, _SIZE_ARGUMENT, 0):
        raise ArgumentsInvalid(
            f"Missing or invalid argument, '{_SIZE_ARGUMENT}' must be an integer "
            "greater than 0"
        )
    if _TTL_ARGUMENT in arguments and not _number(arguments, _TTL_ARGUMENT, 0):
        raise ArgumentsInvalid(
            f"Invalid argument, '{_TTL_ARGUMENT}' must be an integer greater than 0"
        )


def _number(table: dict[str, object], key: str, default: int) -> int:
    """Return a number greater than 0; whatever else is there counts as the default."""
    value = table.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        return default
    return min(value, 1 << 53)
