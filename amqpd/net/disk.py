"""What goes to the disk and comes back: steps, the threads they run on, the tick.

    writer       the log: what waits becomes one batch, one sync
    committer    metadata
    reader       messages that left memory, unless the kernel has them in memory
    pager        the paging log: messages that memory has no room for
    compactor    checkpoints, merges, files that go
    verifiers    passwords: the processor is busy with them, nobody else has to be

Each turn begins what there is to do. Whoever waits for a sync starts one as soon as
none is in flight; what nobody waits for stays until the tick, when most of it may have
become unnecessary (with `sync = always`, which is a tick of 0, it does not wait).
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Final, cast, final

from amqpd.broker.broker import Broker
from amqpd.broker.clients.secret_checks import SecretCheck
from amqpd.broker.ports import Step
from amqpd.broker.queues.cold_load import ColdLoad, ColdLoads
from amqpd.net.wait_age import WaitAge
from amqpd.net.worker import Worker

logger = logging.getLogger("amqpd.disk")

# Waiting for the log: more than this is written to the page cache at once.
WRITE_SIZE: Final = 1024 * 1024
# A disk that is full, or dead, does not keep the broker from ending.
DRAIN_SECONDS_MAX: Final = 5.0
# Begun and waiting for the disk: from here on sockets are not read, until half of it.
BEHIND_SIZE: Final = 64 * 1024 * 1024
# A good hash takes tens of milliseconds, and many may log in at once.
VERIFIER_COUNT: Final = 2
# How often a full disk is asked again, where there is no tick.
TICK_SECONDS: Final = 0.025
# Windows that came back are given to their queues for so long, then the loop goes on:
# what is dispatched at once is still in the processor's caches.
LOADED_SECONDS_MAX: Final = 0.0005


@final
class TimedStep:
    """A step, and how long it took."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.seconds = 0.0

    def run(self) -> None:
        """Run it."""
        started = time.perf_counter()
        self.step.run()
        self.seconds = time.perf_counter() - started


@final
class LoadsStep:
    """Windows that are read together."""

    def __init__(self, loads: list[ColdLoad]) -> None:
        self.loads = loads
        self._reading = ColdLoads(loads)

    def run_at_once(self) -> bool:
        """Read a window that is alone as far as that takes no disk; False: `run` it.

        Two threads that both want the interpreter cost a fifth of a drain.
        """
        return len(self.loads) == 1 and self.loads[0].run_at_once()

    def run(self) -> None:
        """Read them. Between two slices others may have the interpreter."""
        while self._reading.advance():
            pass


@final
class Disk:
    """Everything of a broker that blocks, on threads of its own."""

    def __init__(
        self,
        broker: Broker,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
        tick_seconds: float,
        wake: Callable[[], None],
        serve: Callable[[], None],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.is_behind = False
        self.is_failed = False
        self.wait_age = WaitAge()
        self._broker = broker
        self._loop = loop
        self._now_ms = now_ms
        self._syncs_always = tick_seconds == 0
        self._tick_seconds = tick_seconds or TICK_SECONDS
        self._wake = wake
        self._serve = serve
        self._on_fatal = on_fatal
        self._tick: asyncio.TimerHandle | None = None
        self._syncs_in_flight = 0
        self._is_committing = False
        self._is_paging = False
        self._reads_in_flight = 0
        # Windows that were read and are not with their queues yet.
        self._loaded: deque[Step] = deque()
        self._upkeep_in_flight = 0
        self._is_ending = False
        self._writer = Worker("amqpd-log", loop)
        self._committer = Worker("amqpd-metadata", loop)
        self._reader = Worker("amqpd-read", loop)
        self._pager = Worker("amqpd-page", loop)
        self._compactor = Worker("amqpd-compact", loop)
        self._verifiers = [
            Worker(f"amqpd-verify-{number}", loop) for number in range(VERIFIER_COUNT)
        ]
        self._verifications = 0

    def turn(self, now_ms: int) -> None:
        """Begin what there is to do; steps come back in later turns."""
        if not self.is_failed:
            self._begin_log(now_ms)
            self._begin_commit()
            self._begin_paging(now_ms)
            self._begin_reads(now_ms)
            self._begin_verifications()
            if self._broker.upkeep.has_work:
                self._begin_upkeep(now_ms)
                self._wake()
        self._watch()

    def on_time(self, now_ms: int) -> None:
        """Look after the logs; called a few times a second."""
        if self.is_failed:
            return
        self._begin_upkeep(now_ms)
        for problem in self._broker.upkeep.take_problems():
            logger.warning("%s", problem)
        if self._broker.pager.is_waiting or self._broker.survey.has_work:
            self._wake()

    def _watch(self) -> None:
        durability = self._broker.durability
        size = durability.bytes_waiting + durability.bytes_in_flight
        limit = BEHIND_SIZE // 2 if self.is_behind else BEHIND_SIZE
        self.is_behind = size > limit

    # -- the log --------------------------------------------------------------

    def _begin_log(self, now_ms: int) -> None:
        durability = self._broker.durability
        if durability.is_wanted:
            self.wait_age.on_wanted(now_ms)
        is_write_enough = durability.is_wanted and durability.confirms_early
        is_wanted = durability.is_wanted and not is_write_enough
        is_wanted = is_wanted or (self._syncs_always and durability.has_work)
        if is_wanted and not self._syncs_in_flight:
            # It writes what waits, however much that is.
            self._sync(now_ms)
            return
        if durability.bytes_waiting >= WRITE_SIZE or is_write_enough:
            self._write(now_ms)
        if durability.has_work:
            self._start_tick()

    def _write(self, now_ms: int) -> None:
        durability = self._broker.durability
        step = durability.begin(False, now_ms)
        if step is not None:
            self.wait_age.on_begun(durability.is_wanted)
            self._writer.submit(step, self._write_done)

    def _start_tick(self) -> None:
        if self._tick is None:
            self._tick = self._loop.call_later(self._tick_seconds, self._on_tick)

    def _on_tick(self) -> None:
        self._tick = None
        if self.is_failed:
            return
        now_ms = self._now_ms()
        if not self._syncs_in_flight:
            self._sync(now_ms)
        self._submit_paging(now_ms)

    def _sync(self, now_ms: int) -> None:
        durability = self._broker.durability
        if durability.is_wanted:
            self.wait_age.on_wanted(now_ms)
        step = durability.begin(True, now_ms)
        if step is not None:
            self._syncs_in_flight += 1
            self.wait_age.on_begun(durability.is_wanted)
            self._writer.submit(TimedStep(step), self._sync_done)
        elif durability.has_work:
            # A disk that is full is asked again.
            self._start_tick()

    def _sync_done(self, step: Step) -> None:
        self._syncs_in_flight -= 1
        timed = cast(TimedStep, step)
        self._broker.store.statistics.observe_sync(timed.seconds)
        self._write_done(timed.step)

    def _write_done(self, step: Step) -> None:
        try:
            fatal = self._broker.durability.complete(step)
        except Exception as error:
            # Ours to mend; but nobody may wait for ever for what this step carried.
            logger.exception("a step of the log could not be completed")
            fatal = error
        self.wait_age.on_done(self._broker.durability.is_wanted)
        self._end_step(fatal)

    def _end_step(self, fatal: BaseException | None) -> None:
        if fatal is None or self.is_failed:
            self._serve()
            return
        self.is_failed = True
        self._serve()
        # After the turn that writes the nacks: a close would swallow them.
        self._loop.call_soon(self._on_fatal, fatal)

    # -- metadata -------------------------------------------------------------

    def _begin_commit(self) -> None:
        if self._is_committing or not self._broker.metadata_has_work():
            return
        step = self._broker.begin_metadata()
        if step is not None:
            self._is_committing = True
            self._committer.submit(step, self._commit_done)

    def _commit_done(self, step: Step) -> None:
        self._is_committing = False
        self._broker.complete_metadata(step)
        self._wake()

    # -- out of memory, and back ----------------------------------------------

    def _begin_paging(self, now_ms: int) -> None:
        paging = self._broker.pager.paging
        if paging is None or not paging.has_work:
            return
        if paging.bytes_waiting and not paging.is_disk_full:
            self._submit_paging(now_ms)
        else:
            self._start_tick()

    def _submit_paging(self, now_ms: int) -> None:
        if self._is_paging or self._is_ending:
            return
        step = self._broker.pager.begin_paging(now_ms)
        if step is not None:
            self._is_paging = True
            self._pager.submit(step, self._paging_done)

    def _paging_done(self, step: Step) -> None:
        self._is_paging = False
        self._end_step(self._broker.pager.complete_paging(step))

    def _begin_reads(self, now_ms: int) -> None:
        if self._is_ending:
            return
        loads = self._broker.pager.begin_loads(now_ms)
        if loads:
            step = LoadsStep(loads)
            is_reader_free = not self._reads_in_flight
            self._reads_in_flight += 1
            if is_reader_free and step.run_at_once():
                self._loads_done(step)
            else:
                self._reader.submit(step, self._loads_done)
        if self._broker.survey.has_work:
            self._survey(now_ms)

    def _survey(self, now_ms: int) -> None:
        """Deadlines that a start has found; a slice of them each turn."""
        survey = self._broker.survey
        survey.advance()
        step = survey.begin(now_ms)
        if step is not None:
            self._reads_in_flight += 1
            self._reader.submit(step, self._survey_done)
        elif survey.has_slice:
            self._wake()

    def _survey_done(self, step: Step) -> None:
        self._reads_in_flight -= 1
        error = self._broker.survey.complete(step, self._now_ms())
        if error is not None:
            logger.error("times to live cannot be read, retrying: %s", error)
        self._wake()

    def _loads_done(self, step: Step) -> None:
        self._reads_in_flight -= 1
        is_running = bool(self._loaded)
        self._loaded.extend(cast(LoadsStep, step).loads)
        if not is_running:
            self._complete_loads()

    def _complete_loads(self) -> None:
        """Give windows to their queues; those that take too long another time."""
        now_ms = self._now_ms()
        deadline = time.perf_counter() + LOADED_SECONDS_MAX
        while self._loaded:
            self._broker.pager.complete_load(self._loaded.popleft(), now_ms)
            if time.perf_counter() > deadline:
                break
        if self._loaded:
            self._loop.call_soon(self._complete_loads)
        self._wake()

    # -- passwords ------------------------------------------------------------

    def _begin_verifications(self) -> None:
        while (check := self._broker.secrets.begin()) is not None:
            verifier = self._verifiers[self._verifications % VERIFIER_COUNT]
            self._verifications += 1
            verifier.submit(check, self._verified)

    def _verified(self, step: Step) -> None:
        self._broker.secrets.complete(cast(SecretCheck, step))
        self._wake()

    # -- looking after the logs -----------------------------------------------

    def _begin_upkeep(self, now_ms: int) -> None:
        if self._is_ending:
            return
        for step in self._broker.upkeep.begin(now_ms):
            self._upkeep_in_flight += 1
            self._compactor.submit(step, self._upkeep_done)
        for step in self._broker.upkeep.begin_closing():
            self._reads_in_flight += 1
            self._reader.submit(step, self._closing_done)

    def _upkeep_done(self, step: Step) -> None:
        self._upkeep_in_flight -= 1
        self._broker.upkeep.complete(step)
        self._wake()

    def _closing_done(self, step: Step) -> None:
        self._reads_in_flight -= 1

    # -- the end --------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether a step is out, or anything waits to be written."""
        broker = self._broker
        return bool(
            self._syncs_in_flight
            or self._is_committing
            or self._is_paging
            or self._reads_in_flight
            or self._loaded
            or self._upkeep_in_flight
            or broker.durability.has_work
            or broker.durability.bytes_in_flight
            or broker.metadata_has_work()
        )

    async def drain(self) -> None:
        """Wait until all that was begun or waits is on the disk, if it can be."""
        self._is_ending = True
        deadline = self._loop.time() + DRAIN_SECONDS_MAX
        while not self.is_failed and self._loop.time() < deadline and self.is_busy:
            if not self._syncs_in_flight:
                self._sync(self._now_ms())
            self._wake()
            await asyncio.sleep(0.001)

    def close(self) -> None:
        """Stop the tick and the threads."""
        if self._tick is not None:
            self._tick.cancel()
        for worker in (
            self._writer,
            self._committer,
            self._reader,
            self._pager,
            self._compactor,
            *self._verifiers,
        ):
            worker.close()
