"""What can be wrong with a store, one class for each thing somebody can do about it.

The texts are for the person who starts the server: they name the file and, where
there is one, the way out. Nothing in here knows reply codes or exit codes.
"""

from typing import Final

REPAIR: Final = "run `amqpd store repair {directory}` or restore a backup"


def repair_hint(directory: str) -> str:
    """Return the sentence that names the repair command for a data directory."""
    return REPAIR.format(directory=directory)


class StoreError(Exception):
    """Anything the store cannot go on with."""


class StoreDamaged(StoreError):
    """The files contradict each other; nothing was touched."""


class StoreForeign(StoreError):
    """The files belong to different stores (their UUIDs differ)."""


class QueueIdUnknown(StoreError):
    """The log names a queue id that the metadata never gave out."""


class VersionUnknown(StoreError):
    """The files were written by a version whose format this one does not read."""


class RecordUnknown(VersionUnknown):
    """The log holds a record of a type that must not be skipped."""


class AlreadyLocked(StoreError):
    """Another process has the data directory open."""


class MetadataError(StoreError):
    """The metadata is damaged, missing or of an unknown version."""


class MetadataDamaged(MetadataError):
    """The metadata is not what was written, or not there: a repair goes on without."""


class SyncFailed(StoreError):
    """The disk refused a sync.

    The kernel may have dropped the dirty pages, so a retry that succeeds would
    prove nothing: the store must be closed and recovered from what is on disk.
    """

    def __init__(self, path: str, error: OSError) -> None:
        super().__init__(f"cannot sync {path}: {error}")
        self.error = error
