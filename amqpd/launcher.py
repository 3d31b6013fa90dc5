"""Builds every room, introduces them to each other, and takes them down again.

    data directory (lock) > metadata > log (recovery) > broker > definitions > listeners
    listeners > clients > last sync > log > metadata > lock

The port opens last, when every confirmed message is back in its queue and safe there.
What blocks before that runs on the main thread: there is nobody yet whom it could keep
waiting. After the start the objects that live as long as the process are taken out of
the garbage collector's sight.

It alone knows all rooms and the whole configuration; each room gets the few options
that it needs. How the process ends is a number, after sysexits.h:

    0    stopped by SIGTERM or SIGINT, everything synced
    65   the data directory cannot be used as it is; nothing was touched
    69   an address could not be listened on
    74   the disk refused a sync: what was not confirmed may be lost
    75   another process has the data directory
    78   the configuration cannot be used
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from amqpd import __version__, build_kind
from amqpd.auth.certificates import CertificateLogin
from amqpd.clock import Clock
from amqpd.config import Config, ConfigInvalid, Loaded
from amqpd.logs import set_level, start_logging
from amqpd.net.busy_time import BusySelector
from amqpd.net.garbage import forget_frozen
from amqpd.net.resources import ResourceWatch
from amqpd.net.server import Bound, ListenFailed, Server
from amqpd.net.tls import TLS_KEYS, TlsCertificates, check_tls
from amqpd.opening import DefinitionsUnreadable, Opened, open_rooms
from amqpd.process import (
    descriptors_max,
    enlarge_descriptor_table,
    open_descriptors,
)
from amqpd.protocol.control import ConnectionOptions
from amqpd.protocol.handshake import COMPATIBLE_VERSION, HandshakeOptions
from store.errors import AlreadyLocked, StoreError

if TYPE_CHECKING:
    from amqpd.http.door import Door
    from amqpd.http.prometheus import MetricsEndpoint
    from amqpd.http.room import Identity, Room

logger = logging.getLogger("amqpd.launcher")

EXIT_DATA: Final = 65
EXIT_UNAVAILABLE: Final = 69
EXIT_DISK: Final = 74
EXIT_LOCKED: Final = 75
EXIT_CONFIG: Final = 78

#: Settings that a reload applies; the others need a restart.
_RELOADABLE: Final = frozenset({"log.level", *TLS_KEYS})

Reload = Callable[[], Loaded]


def run(loaded: Loaded, reload: Reload) -> int:
    """Serve until a signal or a failed disk ends it, and return the exit code."""
    config = loaded.config
    start_logging(config.log_level, config.log_format)
    for warning in loaded.warnings:
        logger.warning("%s", warning)
    _allow_many_sockets()
    enlarge_descriptor_table()
    try:
        tls = check_tls(loaded)
        if tls is not None:
            tls.tell()
        return _open_and_serve(loaded, reload, tls)
    except ConfigInvalid as error:
        logger.error("%s", error)
        return EXIT_CONFIG
    except AlreadyLocked as error:
        logger.error("%s", error)
        return EXIT_LOCKED
    except StoreError as error:
        logger.error("%s", error)
        return EXIT_DATA
    except DefinitionsUnreadable as error:
        logger.error("%s", error)
        return EXIT_CONFIG
    except ListenFailed as error:
        logger.error("%s", error)
        return EXIT_UNAVAILABLE


def _open_and_serve(loaded: Loaded, reload: Reload, tls: TlsCertificates | None) -> int:
    port = loaded.config.port
    while True:
        daemon, exit_code = _serve_once(loaded, reload, tls, port)
        if exit_code != 0 or not daemon.is_app_stopped:
            return exit_code
        if not _wait_stopped(daemon):
            return 0
        port = daemon.port
        # Before there is a second one: it may be large.
        del daemon
        forget_frozen()


def _serve_once(
    loaded: Loaded, reload: Reload, tls: TlsCertificates | None, port: int | None
) -> tuple[Daemon, int]:
    clock = Clock()
    opened = open_rooms(loaded.config, clock.now_ms())
    busy = BusySelector()
    daemon = Daemon(opened, loaded, reload, tls, port, busy)
    exit_code = 0
    try:
        with asyncio.Runner(
            loop_factory=lambda: asyncio.SelectorEventLoop(busy)
        ) as runner:
            exit_code = runner.run(daemon.serve())
    finally:
        # A log that failed stays as it is: only recovery may trust it again.
        if exit_code != EXIT_DISK:
            exit_code = _close(opened, clock.now_ms()) or exit_code
    return daemon, exit_code


def _wait_stopped(daemon: Daemon) -> bool:
    """Wait to be told what to do, and return whether that is to serve again.

    Raises:
        ListenFailed: the port of the API has been taken meanwhile.
    """
    from amqpd.standby import Standby

    assert daemon.room is not None, "the API told it to stop"
    # A client that was being accepted while the loop ended: its socket goes with it.
    forget_frozen()
    try:
        return asyncio.run(Standby(daemon.room, daemon.data_dir).wait())
    except OSError as error:
        raise ListenFailed(f"the management API: {error}") from error


def _close(opened: Opened, now_ms: int) -> int:
    try:
        opened.close(now_ms)
    except StoreError as error:
        logger.critical("%s", error)
        return EXIT_DISK
    return 0


class Daemon:
    """The running process: what it serves, and how it is told to end."""

    def __init__(
        self,
        opened: Opened,
        loaded: Loaded,
        reload: Reload,
        tls: TlsCertificates | None,
        port: int | None,
        busy: BusySelector,
    ) -> None:
        self.data_dir = loaded.config.data_dir
        #: Where clients connect without TLS; 0 until it is known, None: nowhere.
        self.port = port
        #: The node is to wait until it is started again.
        self.is_app_stopped = False
        #: What the API knows of it, if there is an API.
        self.room: Room | None = None
        self._opened = opened
        self._loaded = loaded
        self._reload = reload
        self._tls = tls
        self._busy = busy
        self._server: Server | None = None
        self._exit_code = 0
        self._end = asyncio.Event()

    async def serve(self) -> int:
        """Accept clients until the end, and return the exit code.

        Raises:
            ListenFailed: an address is taken or not there.
        """
        config = self._loaded.config
        server = Server(
            self._opened.broker,
            connection_options(config),
            list(config.host),
            self.port,
            tick_seconds(config),
            self._on_fatal,
            self._tls,
            config.tls_port,
        )
        server.watch(ResourceWatch(self._opened.broker, config.data_dir))
        server.ticker.busy = self._busy
        await server.start()
        self._server = server
        if self.port is not None:
            self.port = server.port
        try:
            metrics = self._start_metrics(server)
            http = await self._start_http(server)
        except ListenFailed:
            await server.stop("shutdown")
            raise
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        loop.add_signal_handler(signal.SIGHUP, self._on_reload)
        server.ticker.garbage.start()
        line = start_up_line(config, server.bound(), self._opened)
        logger.info("%s", line)
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        self._busy.begin()
        await self._end.wait()
        busy_ms = 1000 * self._busy.seconds_max
        logger.info("the loop was busy for %.3f ms at most in one go", busy_ms)
        stopping = [server.stop("shutdown")]
        stopping += [each.stop() for each in (metrics, http) if each is not None]
        await asyncio.gather(*stopping)
        return self._exit_code

    def _start_metrics(self, server: Server) -> MetricsEndpoint | None:
        port = self._loaded.config.prometheus_port
        if port == 0:
            return None
        # Only here: it takes as long as all other imports together.
        from amqpd.http.prometheus import MetricsEndpoint

        metrics = MetricsEndpoint(
            self._opened.broker, server.ticker, self._identity(server)
        )
        for address in server.bound_addresses():
            try:
                metrics.listen(address, port)
            except OSError as error:
                raise ListenFailed(
                    f"cannot listen on {address} port {port}: {error.strerror}; choose "
                    "another --prometheus-port (0 is none), or stop what is using it"
                ) from error
        logger.info("metrics are at port %d, /metrics", port)
        return metrics

    async def _start_http(self, server: Server) -> Door | None:
        config = self._loaded.config
        if config.http_port == 0:
            return None
        from amqpd.http.door import Door, check_installed

        check_installed()

        self.room = self._room(server)
        http = Door(self.room)
        for address in server.bound_addresses():
            try:
                await http.listen(address, config.http_port)
            except OSError as error:
                await http.stop()
                raise ListenFailed(
                    f"cannot listen on {address} port {config.http_port}: "
                    f"{error.strerror}; choose another --http-port (0 is none), or "
                    "stop what is using it"
                ) from error
        logger.info("the management API is at port %d", config.http_port)
        return http

    def _identity(self, server: Server) -> Identity:
        from amqpd.http.room import Identity

        config = self._loaded.config
        return Identity(
            node=f"amqpd@{os.uname().nodename}",
            cluster_name=config.cluster_name,
            amqpd_version=__version__,
            rabbitmq_version=COMPATIBLE_VERSION,
            data_dir=config.data_dir,
            started_ms=server.ticker.now_ms(),
        )

    def _room(self, server: Server) -> Room:
        from amqpd.http.cors import Origins
        from amqpd.http.room import Room

        config = self._loaded.config
        room = Room(
            broker=self._opened.broker,
            identity=self._identity(server),
            node=self,
            now_ms=server.ticker.now_ms,
            wake=server.ticker.wake,
            secrets=self._opened.broker.secrets,
            loopback_users=frozenset(config.loopback_users),
            body_size_max=config.http_max_body_size,
            descriptors=lambda: (open_descriptors(), descriptors_max()),
            ticks=server.ticker,
            certificate_expires_s=lambda: self._tls and self._tls.expires_s,
            origins=Origins(config.http_cors_allow_origins, config.http_cors_max_age_s),
        )
        _list_listeners(room, server)
        return room

    # -- what the API tells it

    def stop_app(self) -> None:
        """Close everything and wait, with nothing but the API."""
        logger.info("stopping, until it is started over HTTP")
        self.is_app_stopped = True
        self._end.set()

    def start_app(self) -> None:
        """It runs."""

    async def reset(self) -> None:
        """Refuse: there are clients.

        Raises:
            NodeRuns: always.
        """
        from amqpd.http.node_port import NodeRuns

        raise NodeRuns

    def end(self) -> None:
        """End the process."""
        logger.info("stopping, as told over HTTP")
        self._end.set()

    def suspend_listeners(self) -> None:
        """Let nobody connect any more."""
        assert self._server is not None
        assert self.room is not None
        self._server.suspend()
        _list_listeners(self.room, self._server)
        logger.info("listeners are suspended")

    async def resume_listeners(self) -> None:
        """Let clients connect again.

        Raises:
            OSError: an address has been taken meanwhile.
        """
        assert self._server is not None
        assert self.room is not None
        try:
            await self._server.resume()
        except ListenFailed as error:
            self._server.suspend()
            raise OSError(str(error)) from error
        _list_listeners(self.room, self._server)
        logger.info("listeners are resumed")

    def settings(self) -> Iterable[tuple[str, str, str]]:
        """Key, value and origin of every setting; secrets are covered."""
        return self._loaded.rows()

    # -- what the system tells it

    def _on_signal(self, number: signal.Signals) -> None:
        logger.info("%s received, stopping", number.name)
        self._end.set()

    def _on_fatal(self, error: BaseException) -> None:
        self._exit_code = EXIT_DISK
        self._end.set()

    def _on_reload(self) -> None:
        """Apply what may change while running; name what may not."""
        try:
            loaded = self._reload()
        except ConfigInvalid as error:
            logger.error("the configuration is not reloaded: %s", error)
            return
        # First, so that what follows is written if the new level says so.
        set_level(loaded.config.log_level)
        before = {key: value for key, value, _ in self._loaded.rows()}
        for key, value, origin in loaded.rows():
            if value != before[key] and key not in _RELOADABLE:
                logger.warning("%s: %s changes with a restart only", origin, key)
        if self._tls is not None:
            self._tls.reload(loaded)
        logger.info("the configuration is reloaded")


def _list_listeners(room: Room, server: Server) -> None:
    """Say in the API where clients can connect now."""
    from amqpd.http.room import AMQP, AMQP_TLS, Listener

    amqp = [
        Listener(AMQP_TLS if bound.is_tls else AMQP, bound.address, bound.port)
        for bound in server.bound()
    ]
    room.listeners[:] = amqp + [
        each for each in room.listeners if each.protocol not in (AMQP, AMQP_TLS)
    ]


def connection_options(config: Config) -> ConnectionOptions:
    """Return what every connection needs to know of the configuration."""
    handshake = HandshakeOptions(
        amqpd_version=__version__,
        identity=config.compat_identity,
        cluster_name=config.cluster_name,
        frame_max=config.frame_max,
        channel_max=config.channel_max,
        heartbeat_s=config.heartbeat_s,
        loopback_users=frozenset(config.loopback_users),
        mechanisms=config.auth_mechanisms,
        certificate_login=CertificateLogin(
            config.tls_login_from, config.tls_login_san_type, config.tls_login_san_index
        ),
    )
    return ConnectionOptions(
        handshake, config.max_message_size, config.handshake_timeout_ms
    )


def tick_seconds(config: Config) -> float:
    """Return how long what nobody waits for may stay unsynced; 0: not at all."""
    if config.store_sync == "always":
        return 0.0
    seconds = config.store_sync_interval_ms / 1000
    # Nobody waits for any sync: one a second bounds what a power cut takes.
    return max(seconds, 1.0) if config.store_sync == "off" else seconds


def start_up_line(config: Config, bound: list[Bound], opened: Opened) -> str:
    """Return the one line that standard output gets."""
    return (
        f"Server startup complete; amqpd {__version__} ({build_kind()}) listens on"
        f" {', '.join(map(str, bound))}; data in {config.data_dir};"
        f" {opened.queue_count} queues and {opened.message_count} messages recovered"
    )


def _allow_many_sockets() -> None:
    """Raise the soft limit of open files to the hard one: a connection costs one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:
        logger.info("the limit of open files stays as it is: %s", error)
