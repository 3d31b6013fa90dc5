"""Changes of the topology that wait for the disk, in order on every name.

An operation names the queues and exchanges it is about. It either completes when it is
started, or it has staged a commit and is *in flight* until that is complete. While it
is, whatever is about one of its names waits, first come first served, so each client
gets the answers that a broker without a disk would have given at once:

    declare q       [start......commit]
    bind q to x              (waits)   [start....commit]
    declare y       [start...commit]                          nothing in common: no wait

Some operations may take more along than they name: exchanges that end with their last
binding. They name all that could end, also by what is still pending when they come.
Everybody waits only for who is in flight or came before, so there is no deadlock. What
an operation does is not known here.
"""

from enum import Enum
from typing import final

from amqpd.broker.catalogue.catalogue import CommitWaiter
from amqpd.broker.errors import AmqpError, ResourceError


class Progress(Enum):
    """How far an operation came when it was started."""

    DONE = 1
    IN_FLIGHT = 2


class Operation(CommitWaiter):
    """One change of the topology of a virtual host."""

    def __init__(self, names: set[str]) -> None:
        self.names = names
        self.line: OperationLine | None = None

    def widen(self, names: set[str]) -> set[str]:
        """Return the names with those that could be taken along, as things are now."""
        return names

    def start(self) -> Progress:
        """Check, then do it or stage its commit; the client is told if it is done.

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
        self._in_flight: list[Operation] = []
        # The names of those in flight.
        self._busy: set[str] = set()
        self._waiting: list[Operation] = []
        # Why nothing may begin; None: it may.
        self._refusal: AmqpError | None = None

    def close(self, refusal: AmqpError) -> None:
        """Begin nothing any more: who waits and who comes is refused."""
        self._refusal = refusal
        waiting = self._waiting
        self._waiting = []
        for operation in waiting:
            operation.fail(refusal)

    def reopen(self) -> None:
        """What closed the line has come to nothing."""
        self._refusal = None

    def submit(self, operation: Operation) -> None:
        """Start the operation as soon as nobody before it is about its names."""
        if self._refusal is not None:
            operation.fail(self._refusal)
            return
        operation.line = self
        self._widen(operation)
        for waiting in self._waiting:
            if not waiting.names.isdisjoint(operation.names):
                self._waiting.append(operation)
                return
        if self._busy.isdisjoint(operation.names):
            self._start(operation)
        else:
            self._waiting.append(operation)

    def is_busy(self, name: str) -> bool:
        """Whether an operation about that name is in flight."""
        return name in self._busy

    def complete(
        self, operation: Operation, row_ids: list[int], failure: AmqpError | None
    ) -> None:
        """The commit of an operation in flight is over; those who waited go on."""
        self._in_flight.remove(operation)
        self._busy -= operation.names
        if failure is None:
            operation.finish(row_ids)
        else:
            operation.fail(failure)
        operation.after()
        self._resume()

    def _widen(self, operation: Operation) -> None:
        """Let the operation name all that it could take along when it is started.

        Only who is pending can change what that is until then, and who can has one of
        these names: so its names belong to them, and what is bound to those, and so on.
        """
        names = operation.widen(operation.names)
        while names is not operation.names:
            operation.names = names
            wider = set(names)
            for pending in self._in_flight + self._waiting:
                if not pending.names.isdisjoint(wider):
                    wider |= pending.names
            if wider != names:
                names = operation.widen(wider)

    def _start(self, operation: Operation) -> None:
        try:
            progress = operation.start()
        except AmqpError as error:
            operation.fail(error)
            return
        if progress is Progress.IN_FLIGHT:
            self._in_flight.append(operation)
            self._busy |= operation.names
        else:
            operation.after()

    def _resume(self) -> None:
        """Start those who can, in order; starting one may bring new ones to the end."""
        before: set[str] = set()
        index = 0
        while index < len(self._waiting):
            operation = self._waiting[index]
            held = not self._busy.isdisjoint(operation.names)
            if held or not before.isdisjoint(operation.names):
                before |= operation.names
                index += 1
            else:
                del self._waiting[index]
                self._start(operation)
