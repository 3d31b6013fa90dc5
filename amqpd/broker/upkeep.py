"""Looking after the logs: checkpoints, merges, files that go, damage that is told.

Each log does one thing at a time and says what (store.maintenance). Slices on the loop
are done by `begin`; what blocks is a step. While `has_work`, slices follow each other
turn by turn, else it is enough to ask a few times a second.
"""

from typing import cast, final

from amqpd.broker.ports import DurabilityWaiter, Step
from store.maintenance import MaintenanceStep
from store.message_store import MessageStore


@final
class UpkeepStep:
    """A step of one of the logs."""

    def __init__(
        self, store: MessageStore[DurabilityWaiter], step: MaintenanceStep
    ) -> None:
        self.store = store
        self.step = step

    def run(self) -> None:
        """Do it; blocks, raises nothing."""
        self.step.run()


@final
class Upkeep:
    """The upkeep of a broker's logs."""

    def __init__(self, stores: list[MessageStore[DurabilityWaiter]]) -> None:
        self._stores = stores

    @property
    def has_work(self) -> bool:
        """Whether a slice is to be done in the next turn."""
        return any(store.maintenance.has_work for store in self._stores)

    def begin(self, now_ms: int) -> list[Step]:
        """Do a slice for each log; return the steps to run, each log's in turn."""
        steps: list[Step] = []
        for store in self._stores:
            step = store.begin_maintenance(now_ms)
            if step is not None:
                steps.append(UpkeepStep(store, step))
        return steps

    def complete(self, step: Step) -> None:
        """Take a step back that has run."""
        done = cast(UpkeepStep, step)
        done.store.complete_maintenance(done.step)

    def empty_caches(self) -> None:
        """Nobody reads: keep nothing of what was read."""
        for store in self._stores:
            store.cold.empty_caches()

    def begin_closing(self) -> list[Step]:
        """Return steps for the reader: files to close, caches to empty."""
        steps: list[Step] = []
        for store in self._stores:
            step = store.cold.begin_forgetting()
            if step is not None:
                steps.append(step)
        return steps

    def take_problems(self) -> list[str]:
        """Return what went wrong since the last call, for whoever reads the log."""
        problems: list[str] = []
        for store in self._stores:
            problems += store.maintenance.take_problems()
        return problems
