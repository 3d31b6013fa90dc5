"""Changes of the topology that wait for the disk, in order on every name.

An operation names the queues and exchanges it is about. It either completes when it is
started, or it has staged a commit and is *in flight* until that is complete. While it
is, whatever is about one of its names waits, first come first served, so each client
gets the answers that a broker without a disk would have given at once:

    declare q       [start......commit]
    bind q to x              (waits)   [start....commit]
    declare y       [start...commit]                          nothing in common: no wait

An operation may find, when it starts, that it takes more along than it named (exchanges
that are deleted with their last binding); if one of those is busy it waits for it at
its old place in line. Nothing that waits for its start keeps anything busy, so there
is no deadlock. What an operation does is not known here.
"""

from enum import Enum
from typing import final

from amqpd.broker.catalogue import CommitWaiter
from amqpd.broker.errors import AmqpError, ResourceError


class Progress(Enum):
    """How far an operation came when it was started."""

    DONE = 1
    IN_FLIGHT = 2
    # It needs a name that is busy, and has done nothing.
    BLOCKED = 3


class Operation(CommitWaiter):
    """One change of the topology of a virtual host."""

    def __init__(self, names: set[str]) -> None:
        self.names = names
        self.line: OperationLine | None = None

    def start(self) -> Progress:
        """Check, then do it or stage its commit; told the client if it is done.

        Raises:
            AmqpError: it is refused; `fail` is called with it.
        """
        raise NotImplementedError

    def finish(self, row_ids: list[int]) -> None:
        """It is durable: change what is in memory and tell the client."""
        raise NotImplementedError

    def fail(self, error: AmqpError) -> None:
        """Tell the client that nothing has happened, and why."""
        raise NotImplementedError

    def after(self) -> None:
        """It is over and its names are free: do what waited for that, if anything."""

    def on_committed(self, row_ids: list[int]) -> None:
        """The commit is durable."""
        assert self.line is not None
        self.line.complete(self, row_ids, None)

    def on_commit_failed(self, error: Exception) -> None:
        """The disk would not take the commit."""
        assert self.line is not None
        failure = ResourceError(f"the change could not be stored: {error}")
        self.line.complete(self, [], failure)


@final
class OperationLine:
    """The operations of one virtual host: those in flight, and those that wait."""

    def __init__(self) -> None:
        self._busy: set[str] = set()
        self._waiting: list[Operation] = []
        # What those name who wait before the operation that is being started.
        self._named_before: set[str] = set()

    def submit(self, operation: Operation) -> None:
        """Start the operation as soon as nobody before it is about its names."""
        operation.line = self
        before: set[str] = set()
        for waiting in self._waiting:
            before |= waiting.names
        held = self._is_held(operation.names, before)
        if held or self._start(operation, before) is Progress.BLOCKED:
            self._waiting.append(operation)

    def is_busy(self, name: str) -> bool:
        """Whether an operation about that name is in flight."""
        return name in self._busy

    def may_take(self, names: set[str]) -> bool:
        """Whether the operation that is being started may take these names along."""
        return not self._is_held(names, self._named_before)

    def complete(
        self, operation: Operation, row_ids: list[int], failure: AmqpError | None
    ) -> None:
        """The commit of an operation in flight is over; those who waited go on."""
        self._busy -= operation.names
        if failure is None:
            operation.finish(row_ids)
        else:
            operation.fail(failure)
        operation.after()
        self._resume()

    def _start(self, operation: Operation, before: set[str]) -> Progress:
        self._named_before = before
        try:
            progress = operation.start()
        except AmqpError as error:
            operation.fail(error)
            return Progress.DONE
        if progress is Progress.IN_FLIGHT:
            self._busy |= operation.names
        elif progress is Progress.DONE:
            operation.after()
        return progress

    def _resume(self) -> None:
        """Start those who can, in order; starting one may bring new ones to the end."""
        before: set[str] = set()
        index = 0
        while index < len(self._waiting):
            operation = self._waiting[index]
            if not self._is_held(operation.names, before):
                del self._waiting[index]
                if self._start(operation, before) is not Progress.BLOCKED:
                    continue
                self._waiting.insert(index, operation)
            before |= operation.names
            index += 1

    def _is_held(self, names: set[str], before: set[str]) -> bool:
        return not (self._busy.isdisjoint(names) and before.isdisjoint(names))
