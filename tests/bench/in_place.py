"""A broker in one thread and without sockets: real rooms, every step run in place.

    client.send(octets) -> connection.receive_data -> broker
    broker.turn(): feeds, dispatch, writes, syncs and commits, until nothing is left

This is what `amqpd.net` does around the core, less the waiting, so what is measured
here is the core alone. The disk is real and so is the log; only time stands still.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pamqp import base, commands

from amqpd import __version__
from amqpd.broker.broker import Broker, Defaults
from amqpd.broker.catalogue.catalogue import SCHEMA, SCHEMA_VERSION, Catalogue
from amqpd.broker.ports import DurabilityWaiter
from amqpd.protocol.connection import Connection
from amqpd.protocol.control import ConnectionOptions
from amqpd.protocol.handshake import HandshakeOptions
from amqpd.protocol.output import Output, OutputQueue
from amqpd.protocol.ports import PendingConnections
from store.data_directory import DataDirectory
from store.filesystem import OsFileSystem
from store.metadata import Metadata
from store.opening import Opened, open_store
from store.options import StoreOptions
from tests.support.raw_client import (
    METHOD,
    PROTOCOL_HEADER,
    encode_frame,
    encode_method,
    encode_start_ok,
    plain,
)

NOW_MS: Final = 1_700_000_000_000


class InPlaceBroker:
    """The broker, its connections, and the turn that drives them."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._options = ConnectionOptions(HandshakeOptions(__version__))
        self._outputs = OutputQueue()
        self._pending = PendingConnections()

    def connect(self, name: str) -> InPlaceClient:
        """Return a client that has logged in and opened channel 1."""
        output = Output(self._outputs)
        connection = Connection(
            self._broker, self._options, output, self._pending, name, True, NOW_MS
        )
        client = InPlaceClient(self, connection)
        output.sink = client
        client.log_in()
        return client

    def turn(self) -> None:
        """Do everything there is to do, the disk's part included."""
        dispatch, outputs = self._broker.dispatch, self._outputs
        is_busy = True
        while is_busy:
            for connection in self._pending.take():
                connection.advance(NOW_MS)
            while dispatch.has_work():
                dispatch.visit_next()
            for output in outputs.take_dirty():
                client = output.sink
                assert isinstance(client, InPlaceClient)
                pieces = output.take()
                if client.is_kept:
                    client.received += b"".join(pieces)
                output.wake_consumers()
            self._run_steps()
            is_busy = (
                self._pending.has_work() or dispatch.has_work() or outputs.has_work()
            )

    def _run_steps(self) -> None:
        durability = self._broker.durability
        if durability.is_wanted:
            step = durability.begin(True, NOW_MS)
            if step is not None:
                step.run()
                durability.complete(step)
        if self._broker.metadata_has_work():
            commit = self._broker.begin_metadata()
            if commit is not None:
                commit.run()
                self._broker.complete_metadata(commit)


class InPlaceClient:
    """The other end of one connection."""

    def __init__(self, broker: InPlaceBroker, connection: Connection) -> None:
        self._broker = broker
        self._connection = connection
        #: What the broker has sent and nobody has taken.
        self.received = b""
        #: Whether it is kept at all.
        self.is_kept = True

    def log_in(self) -> None:
        """Go through the handshake and open channel 1."""
        self.send(PROTOCOL_HEADER)
        response = plain("guest", "guest")
        self.send(encode_frame(METHOD, 0, encode_start_ok(b"PLAIN", response)))
        self.call(0, commands.Connection.TuneOk(2047, 131072, 0))
        self.call(0, commands.Connection.Open("/"))
        self.call(1, commands.Channel.Open())

    def call(self, channel: int, method: base.Frame) -> None:
        """Send a method and drop the answer."""
        self.send(encode_method(channel, method))
        self.received = b""

    def send(self, data: bytes) -> None:
        """Send octets as one read of the socket would bring them, and take a turn."""
        self._connection.receive_data(data, NOW_MS)
        self._broker.turn()


@contextmanager
def in_place_broker(path: str) -> Iterator[InPlaceBroker]:
    """Open a broker in an empty data directory."""
    filesystem = OsFileSystem()
    directory = DataDirectory.open(path, filesystem)
    metadata = Metadata.open(
        directory.metadata_path, SCHEMA, SCHEMA_VERSION, filesystem
    )
    catalogue = Catalogue(metadata)
    opened: Opened[DurabilityWaiter] = open_store(
        path, filesystem, StoreOptions(), metadata.store_uuid, set(), 0, NOW_MS
    )
    # The same octets every time: two runs are to do the same.
    broker = Broker.open(catalogue, opened.store, opened.queues, bytes)
    broker.create_defaults(Defaults())
    try:
        yield InPlaceBroker(broker)
    finally:
        opened.store.close()
        catalogue.close()
        directory.close()
