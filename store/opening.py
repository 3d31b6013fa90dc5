"""From a directory to a store that is recovered and safe.

    the log         recovered, synced, with checkpoints: `open_store`
    the paging log  the same class, never synced, emptied first: `open_paging`

Both block: nobody is connected yet.
"""

from typing import Final, Generic, TypeVar, final

from store.checkpoint_files import KeptCheckpoints
from store.cold_store import ColdStore
from store.errors import StoreError
from store.filesystem import FileSystem
from store.index import Index
from store.maintenance import Maintenance
from store.message_store import MessageStore
from store.options import StoreOptions
from store.recovery import LOG_NAME, QUARANTINE_NAME, Recovery, RecoveryReport
from store.replay import RecoveredQueue
from store.segment_set import Reserve, SegmentSet
from store.statistics import StoreStatistics

T = TypeVar("T")

PAGING_NAME: Final = "paging"

# Twice this much stays with the process when a batch is freed.
_HEAP_KEPT: Final = 4 * 1024 * 1024
# The paging log's files belong to nobody: they do not outlive the process.
_NO_UUID: Final = bytes(16)


@final
class Opened(Generic[T]):
    """A store that is recovered and safe, and what it holds."""

    __slots__ = ("queues", "report", "store")

    def __init__(
        self,
        store: MessageStore[T],
        queues: dict[int, RecoveredQueue],
        report: RecoveryReport,
    ) -> None:
        self.store = store
        self.queues = queues
        self.report = report


def open_store(
    directory: str,
    filesystem: FileSystem,
    options: StoreOptions,
    store_uuid: bytes,
    known_queues: set[int],
    highest_queue_id: int,
    now_ms: int,
) -> Opened[T]:
    """Recover a data directory and return its store; blocks.

    When this returns, counts are exact and everything recovered is durable.

    Raises:
        StoreError: the files do not go together, or the disk refuses.
    """
    _keep_heap()
    log = f"{directory}/{LOG_NAME}"
    reserve = Reserve(filesystem, log, options.reserve_size)
    recovered = Recovery(
        filesystem, directory, store_uuid, known_queues, highest_queue_id, reserve
    ).run()
    segments = SegmentSet(
        filesystem,
        log,
        store_uuid,
        options.segment_size,
        reserve,
        recovered.next_number,
        recovered.next_batch,
        True,
    )
    is_disk_full = not segments.open() or not reserve.allocate()
    store: MessageStore[T] = _store_of(
        directory,
        log,
        filesystem,
        options,
        store_uuid,
        segments,
        recovered.index,
        recovered.checkpoints,
        is_disk_full,
        now_ms,
    )
    return Opened(store, recovered.queues, recovered.report)


def open_paging(
    directory: str, filesystem: FileSystem, options: StoreOptions, now_ms: int
) -> MessageStore[T]:
    """Empty the paging log of a data directory and open it; blocks.

    Raises:
        StoreError: the disk refuses.
    """
    log = f"{directory}/{PAGING_NAME}"
    try:
        filesystem.make_directory(log)
        for name in filesystem.list_directory(log):
            filesystem.remove(f"{log}/{name}")
    except OSError as exc:
        raise StoreError(f"cannot empty {log}: {exc}") from exc
    # Without a reserve: what cannot be paged out stays in memory.
    reserve = Reserve(filesystem, log, 0)
    segments = SegmentSet(
        filesystem, log, _NO_UUID, options.segment_size, reserve, 1, 1, False
    )
    return _store_of(
        directory,
        log,
        filesystem,
        options,
        _NO_UUID,
        segments,
        Index(),
        None,
        not segments.open(),
        now_ms,
    )


def _store_of(
    directory: str,
    log: str,
    filesystem: FileSystem,
    options: StoreOptions,
    store_uuid: bytes,
    segments: SegmentSet,
    index: Index,
    checkpoints: KeptCheckpoints | None,
    is_disk_full: bool,
    now_ms: int,
) -> MessageStore[T]:
    """Put a store together; one without checkpoints does not outlive the process."""
    is_volatile = checkpoints is None
    statistics = StoreStatistics()
    cold = ColdStore(
        filesystem,
        log,
        f"{directory}/{QUARANTINE_NAME}",
        store_uuid,
        index,
        statistics,
        options.cold_cache_size,
    )
    maintenance = Maintenance(
        filesystem, log, store_uuid, options, index, checkpoints, statistics, now_ms
    )
    return MessageStore(
        segments,
        index,
        cold,
        maintenance,
        statistics,
        store_uuid,
        options.confirms_early and not is_volatile,
        is_volatile,
        is_disk_full,
        options.reserve_probe_ms,
        now_ms,
    )


def _keep_heap() -> None:
    """Stop glibc from giving a batch's memory back to the kernel each time.

    It does so whenever 128 KiB at the top of the heap are free, and every page is
    faulted in again for the next batch: 2,300 ns a message (begin and run, 1 KiB)
    instead of 1,050. Freeing one larger block raises the limit to twice its size
    (mallopt(3), M_MMAP_THRESHOLD). Elsewhere this does nothing.
    """
    bytes(_HEAP_KEPT)
