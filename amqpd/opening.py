"""From a data directory to a broker that is ready to serve, and back.

    lock the directory > metadata > recover the log > broker > definitions or defaults

All of it blocks, and may: nobody is connected yet. What fails leaves the directory as
it was, and unlocked. It knows the configuration's paths and sizes, and no sockets.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from pathlib import Path
from typing import Final

from amqpd.auth.passwords import ARGON2ID
from amqpd.broker.alarms import Alarms, ResourceLimit
from amqpd.broker.broker import Broker, Defaults
from amqpd.broker.catalogue.catalogue import (
    SCHEMA,
    SCHEMA_VERSION,
    Catalogue,
    CommitFailed,
)
from amqpd.broker.clients.admission import NodeLimits
from amqpd.broker.definitions import load_definitions
from amqpd.broker.policies.number_limits import NO_LIMIT
from amqpd.broker.ports import DurabilityWaiter
from amqpd.broker.queues.pager import MemoryBudgets
from amqpd.config import Config
from amqpd.machine_memory import machine_size, memory_limit
from store.data_directory import METADATA_NAME, VERSION_NAME, DataDirectory
from store.errors import StoreError
from store.filesystem import FileSystem, OsFileSystem
from store.metadata import Metadata
from store.opening import Opened as OpenedStore
from store.opening import open_paging, open_store
from store.options import StoreOptions
from store.recovery import RecoveryReport

logger = logging.getLogger("amqpd.opening")

#: Of the memory there is: what messages may take, like RabbitMQ's high watermark.
MEMORY_SHARE: Final = 0.4


#: What `password_hashing` may be, as it is called where hashes are kept.
PASSWORD_ALGORITHMS: Final = {
    "argon2id": ARGON2ID,
    "sha256": "rabbit_password_hashing_sha256",
    "sha512": "rabbit_password_hashing_sha512",
}


#: What a data directory holds besides its version and its lock.
DATA_NAMES: Final = (
    *(f"{METADATA_NAME}{end}" for end in ("", "-wal", "-shm")),
    *("log", "paging", "quarantine"),
)


class DefinitionsUnreadable(Exception):
    """The file of definitions cannot be used; the text names it."""


class Opened:
    """A broker with everything below it."""

    def __init__(
        self,
        broker: Broker,
        metadata: Metadata,
        directory: DataDirectory,
        queue_count: int,
        message_count: int,
    ) -> None:
        self.broker = broker
        #: What was there before anybody connected.
        self.queue_count = queue_count
        self.message_count = message_count
        self._metadata = metadata
        self._directory = directory

    def close(self, now_ms: int) -> None:
        """Write and sync what is left, end the log and unlock the directory.

        Nothing may be in flight. After a failed sync this must not be called: the
        files are left as they are, for the recovery of the next start.

        Raises:
            StoreError: the disk refused the last write.
        """
        store = self.broker.store
        step = store.close_step(now_ms)
        if step is not None:
            step.run()
            result = store.complete(step)
            if result.fatal is not None:
                raise StoreError(f"the last sync failed: {result.fatal}")
            # Not while a merge goes on that a slow disk has kept from ending.
            if not store.maintenance.is_in_flight:
                store.finish()
        store.close()
        if self.broker.pager.paging is not None:
            self.broker.pager.paging.close()
        self._metadata.close()
        self._directory.close()


def open_rooms(config: Config, now_ms: int) -> Opened:
    """Open the data directory and everything in it.

    Raises:
        StoreError: the directory cannot be used as it is.
        DefinitionsUnreadable: the definitions cannot be used.
    """
    filesystem = OsFileSystem()
    directory = DataDirectory.open(str(config.data_dir), filesystem)
    try:
        return _open_locked(config, directory, filesystem, now_ms)
    except BaseException:
        directory.close()
        raise


def forget_everything(data_dir: Path) -> None:
    """Remove all that is in a data directory nobody has open.

    A crash in the middle leaves a directory that a start may refuse as damaged, and
    that can be reset again.

    Raises:
        OSError: the disk refuses, or another process has the directory.
    """
    try:
        directory = DataDirectory.open(str(data_dir), OsFileSystem())
    except StoreError as error:
        raise OSError(str(error)) from error
    try:
        # What says that it is a data directory goes last.
        for name in (*DATA_NAMES, VERSION_NAME):
            path = data_dir / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    finally:
        directory.close()


def _open_locked(
    config: Config, directory: DataDirectory, filesystem: FileSystem, now_ms: int
) -> Opened:
    metadata = Metadata.open(
        directory.metadata_path, SCHEMA, SCHEMA_VERSION, filesystem
    )
    try:
        catalogue = Catalogue(metadata)
        options = _store_options(config)
        opened: OpenedStore[DurabilityWaiter] = open_store(
            directory.path,
            filesystem,
            options,
            metadata.store_uuid,
            catalogue.known_queue_ids(),
            catalogue.highest_queue_id(),
            now_ms,
        )
        _log_recovery(opened.report)
        broker = Broker.open(
            catalogue,
            opened.store,
            opened.queues,
            os.urandom,
            open_paging(directory.path, filesystem, options, now_ms),
            _budgets(config),
        )
        _set_limits(broker.alarms, config)
        broker.admission.node_limits = _node_limits(config)
        broker.password_algorithm = PASSWORD_ALGORITHMS[config.password_hashing]
        if config.compat_x_death == "drop":
            broker.drop_published_deaths()
        if config.compat_relaxed_quorum_checks:
            broker.relax_quorum_checks()
        queue_count = sum(len(vhost.queues) for vhost in broker.vhosts.values())
        message_count = sum(int(queue.count) for queue in opened.queues.values())
        _define(broker, config)
    except BaseException:
        metadata.close()
        raise
    return Opened(broker, metadata, directory, queue_count, message_count)


def _store_options(config: Config) -> StoreOptions:
    return StoreOptions(
        segment_size=config.store_segment_size,
        confirms_early=config.store_sync == "off",
        garbage_ratio=config.store_garbage_percent / 100,
        garbage_segments=config.store_garbage_segments,
    )


def _budgets(config: Config) -> MemoryBudgets:
    total = config.memory_total_budget
    if total is None:
        total = int(MEMORY_SHARE * memory_total(config))
    return MemoryBudgets(config.memory_cold_budget, total)


def memory_total(config: Config) -> int:
    """Return how much memory there is for this process, in octets."""
    detected = memory_limit(machine_size())
    given = config.memory_available
    return detected if given is None else _limit(given).of(detected)


def _set_limits(alarms: Alarms, config: Config) -> None:
    alarms.memory_total = memory_total(config)
    alarms.set_memory_watermark(_limit(config.memory_high_watermark))
    alarms.set_disk_free_limit(_limit(config.disk_free_limit))


def _node_limits(config: Config) -> NodeLimits:
    return NodeLimits(
        f"amqpd@{os.uname().nodename}",
        _or_none(config.connection_max),
        _or_none(config.channel_max_per_node),
        _or_none(config.consumer_max_per_channel),
        _or_none(config.vhost_max),
        _or_none(config.cluster_queue_limit),
        _or_none(config.cluster_exchange_limit),
    )


def _or_none(limit: int | None) -> int:
    return NO_LIMIT if limit is None else limit


def _limit(amount: int | float) -> ResourceLimit:
    """Return a limit as it is configured: octets are a whole number."""
    if isinstance(amount, float):
        return ResourceLimit(None, amount)
    return ResourceLimit(amount)


def _define(broker: Broker, config: Config) -> None:
    """Load what the configuration names; what is blank after that gets defaults."""
    try:
        if config.load_definitions is not None:
            for path in _definition_files(config.load_definitions):
                _load_file(broker, path)
        broker.create_defaults(
            Defaults(config.default_user, config.default_pass, config.default_vhost)
        )
    except CommitFailed as error:
        raise StoreError(f"definitions and defaults: {error}") from error


def _definition_files(path: Path) -> list[Path]:
    """Return the file, or those of a directory in the order of their names."""
    return sorted(path.glob("*.json")) if path.is_dir() else [path]


def _load_file(broker: Broker, path: Path) -> None:
    try:
        load_definitions(broker, json.loads(path.read_bytes()))
    except (OSError, ValueError) as error:
        # ValueError: not UTF-8, not JSON, or not what definitions look like.
        raise DefinitionsUnreadable(f"definitions {path}: {error}") from error
    logger.info("definitions %s are loaded", path)


def _log_recovery(report: RecoveryReport) -> None:
    if report.torn_size:
        logger.info(
            "the log ended in %d octets that were never known to be durable; "
            "they are cut off",
            report.torn_size,
        )
    for line in report.quarantined:
        logger.error("the log is damaged: %s", line)
