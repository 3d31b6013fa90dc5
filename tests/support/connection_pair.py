"""A broker without sockets, threads and clock, and connections to it.

    bench = Bench(tmp_path)                     a real broker on a real directory
    pair = bench.connect()                      a real connection, open
    pair.send(method(1, commands.Channel.Open()), publish("q", b"hello"))
    bench.turn()                                what the loop does between reads
    bench.sync()                                the disk: begin, run, complete
    pair.take()                                 the frames that the client would see

Bytes go in, frames come out. The time is a number that the test sets. Nothing happens
by itself: a test that wants the disk to be late leaves `sync` out; `run_idle` does
everything until nothing is left.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeVar

from pamqp import base, commands, frame

from amqpd.broker.broker import BUDGETS, Broker, Defaults
from amqpd.broker.catalogue.catalogue import SCHEMA, SCHEMA_VERSION, Catalogue
from amqpd.broker.ports import DurabilityWaiter, Step
from amqpd.broker.queues.cold_load import ColdLoads
from amqpd.broker.queues.pager import PAUSE_MS, MemoryBudgets
from amqpd.protocol.connection import Connection
from amqpd.protocol.control import ConnectionOptions
from amqpd.protocol.handshake import HandshakeOptions
from amqpd.protocol.output import Output, OutputQueue
from amqpd.protocol.ports import PendingConnections
from store.filesystem import FileSystem, OsFileSystem
from store.message_store import MessageStore
from store.metadata import Metadata
from store.opening import Opened, open_paging, open_store
from store.options import StoreOptions
from tests.support.raw_client import (
    ALL_CAPABILITIES,
    METHOD,
    PROTOCOL_HEADER,
    Closed,
    ReceivedFrame,
    encode_frame,
    encode_start_ok,
    plain,
)

HANDSHAKE: Final = HandshakeOptions("0.0")
# Small files: a test writes little and makes many.
STORE: Final = StoreOptions(segment_size=64 * 1024, reserve_segments=1)

MethodT = TypeVar("MethodT", bound=base.Frame)


def method(channel: int, sent: base.Frame) -> bytes:
    """The frame of a method."""
    return frame.marshal(sent, channel)


def tune_ok(
    frame_max: int = 131072, channel_max: int = 2047, heartbeat: int = 60
) -> bytes:
    """The frame of connection.tune-ok."""
    return method(0, commands.Connection.TuneOk(channel_max, frame_max, heartbeat))


class Numbered:
    """Octets that look random and are different each time, and the same each run."""

    def __init__(self) -> None:
        self.is_broken = False
        self._count = 0

    def __call__(self, size: int) -> bytes:
        """The next `size` octets.

        Raises:
            OSError: the source is broken.
        """
        if self.is_broken:
            raise OSError("no randomness left")
        self._count += 1
        return self._count.to_bytes(size, "big")


class Bench:
    """A broker on a directory, and the loop that drives it, turned by hand."""

    def __init__(
        self,
        directory: Path,
        filesystem: FileSystem | None = None,
        options: ConnectionOptions | None = None,
        budgets: MemoryBudgets = BUDGETS,
    ) -> None:
        self.now_ms = 1_700_000_000_000
        self.outputs = OutputQueue()
        self.pending = PendingConnections()
        self.options = options or ConnectionOptions(HANDSHAKE)
        self._connected = 0
        files: FileSystem = filesystem or OsFileSystem()
        files.make_directory(str(directory))
        files.make_directory(f"{directory}/log")
        self._metadata = Metadata.open(
            f"{directory}/meta.db", SCHEMA, SCHEMA_VERSION, files
        )
        catalogue = Catalogue(self._metadata)
        opened: Opened[DurabilityWaiter] = open_store(
            str(directory),
            files,
            STORE,
            self._metadata.store_uuid,
            catalogue.known_queue_ids(),
            catalogue.highest_queue_id(),
            self.now_ms,
        )
        self.store = opened.store
        self.random_octets = Numbered()
        self.paging: MessageStore[DurabilityWaiter] = open_paging(
            str(directory), files, STORE, self.now_ms
        )
        self.broker = Broker.open(
            catalogue,
            self.store,
            opened.queues,
            self.random_octets,
            self.paging,
            budgets,
        )
        self.broker.create_defaults(Defaults())

    def close(self) -> None:
        """Leave the directory as a clean stop does."""
        self.run_idle()
        self.store.close()
        self.paging.close()
        self._metadata.close()

    def kill(self) -> None:
        """Leave the directory as a process does that is killed."""
        self.store.close()
        self.paging.close()
        self._metadata.close()

    def accept(self, is_loopback: bool = True) -> ConnectionPair:
        """A connection of which nothing has been said yet."""
        self._connected += 1
        return ConnectionPair(self, f"client {self._connected}", is_loopback)

    def connect(
        self, frame_max: int = 131072, channel_max: int = 2047, *channels: int
    ) -> ConnectionPair:
        """An open connection; channel 1 is open too, or the given ones are."""
        pair = self.accept()
        pair.shake_hands(frame_max, channel_max)
        for number in channels or (1,):
            pair.call(number, commands.Channel.Open(), commands.Channel.OpenOk)
        return pair

    # -- what the loop does ---------------------------------------------------

    def feed(self) -> None:
        """Let the connections that have frames left go on for one turn."""
        for connection in self.pending.take():
            connection.advance(self.now_ms)

    def dispatch(self) -> None:
        """Deliver what can be delivered now."""
        while self.broker.dispatch.has_work():
            self.broker.dispatch.visit_next()

    def turn(self) -> None:
        """Feed and dispatch until nothing is left that needs no write or sync."""
        while self.pending.has_work() or self.broker.dispatch.has_work() or self.load():
            self.feed()
            self.dispatch()

    def load(self) -> int:
        """Read the windows that queues want; return how many there were."""
        loads = self.broker.pager.begin_loads(self.now_ms)
        reading = ColdLoads(loads)
        while reading.advance():
            pass
        for load in loads:
            self.broker.pager.complete_load(load, self.now_ms)
        return len(loads)

    def survey(self) -> None:
        """Read the deadlines that the start has found, until no more are left."""
        survey = self.broker.survey
        while survey.has_work:
            step = survey.begin(self.now_ms)
            if step is not None:
                step.run()
                assert survey.complete(step, self.now_ms) is None
            survey.advance()

    def page_out(self) -> None:
        """Let go of what is too much, until nothing more can go."""
        pager = self.broker.pager
        is_first = True
        while is_first or pager.has_work or self.write_pages():
            is_first = False
            self.now_ms += int(PAUSE_MS)
            pager.turn(self.now_ms)

    def write_pages(self) -> bool:
        """Write what waits for the paging log; return whether anything did."""
        step = self.broker.pager.begin_paging(self.now_ms)
        if step is None:
            return False
        step.run()
        assert self.broker.pager.complete_paging(step) is None
        return True

    def pass_time(self, milliseconds: int) -> int:
        """Let time pass, do what is due and deliver; return when to be called next.

        What starts a clock before the next call starts it at the time of that call.
        """
        self.now_ms += milliseconds
        timers = self.broker.vhosts["/"].surroundings.timers
        due_ms = int(timers.on_time(self.now_ms))
        self.turn()
        return due_ms

    def begin_sync(self) -> Step | None:
        """Begin a sync; `run` and `complete_sync` are the caller's."""
        return self.broker.durability.begin(True, self.now_ms)

    def complete_sync(self, step: Step) -> BaseException | None:
        """Bring a sync back that has run."""
        return self.broker.durability.complete(step)

    def sync(self) -> None:
        """Let the disk have what waits, and tell those who wait."""
        step = self.begin_sync()
        if step is not None:
            step.run()
            assert self.complete_sync(step) is None

    def commit(self) -> None:
        """Commit what was declared, and tell those who wait."""
        step = self.broker.begin_metadata()
        if step is not None:
            step.run()
            self.broker.complete_metadata(step)

    def run_idle(self) -> None:
        """Do everything until nothing is left to do."""
        durability = self.broker.durability
        self.turn()
        while self.broker.metadata_has_work() or durability.is_wanted:
            self.commit()
            self.sync()
            self.turn()
        self.sync()


class ConnectionPair:
    """The broker's end of a connection, and what its client sends and sees."""

    def __init__(self, bench: Bench, name: str, is_loopback: bool) -> None:
        self.bench = bench
        self.output = Output(bench.outputs)
        self.connection = Connection(
            bench.broker,
            bench.options,
            self.output,
            bench.pending,
            name,
            is_loopback,
            bench.now_ms,
        )
        self._unseen = b""

    @property
    def is_closed(self) -> bool:
        """Whether the broker would close the socket now."""
        return self.connection.control.is_closed

    # -- what the client sends ------------------------------------------------

    def send(self, *pieces: bytes) -> None:
        """Send octets, in one read."""
        self.bench.broker.timers.now_ms = self.bench.now_ms
        self.connection.receive_data(b"".join(pieces), self.bench.now_ms)

    def send_in_pieces(self, data: bytes, *cuts: int) -> None:
        """Send octets in several reads, and let each be processed."""
        edges = [0, *sorted(cuts), len(data)]
        for start, end in pairwise(edges):
            self.send(data[start:end])
            self.bench.turn()

    def shake_hands(self, frame_max: int = 131072, channel_max: int = 2047) -> None:
        """Log in as guest and open the virtual host /."""
        start_ok = encode_start_ok(b"PLAIN", plain("guest", "guest"), ALL_CAPABILITIES)
        self.send(
            PROTOCOL_HEADER,
            encode_frame(METHOD, 0, start_ok),
            tune_ok(frame_max, channel_max),
            method(0, commands.Connection.Open("/")),
        )
        names = [taken.method.name for taken in self.take()]
        assert names == ["Connection.Start", "Connection.Tune", "Connection.OpenOk"]

    def call(self, channel: int, sent: base.Frame, expected: type[MethodT]) -> MethodT:
        """Send a method, do all that it takes, and return the only answer."""
        self.send(method(channel, sent))
        self.bench.run_idle()
        return self.expect(channel, expected)

    def declare(self, name: str, durable: bool = False, channel: int = 1) -> None:
        """Declare a queue."""
        sent = commands.Queue.Declare(queue=name, durable=durable)
        self.call(channel, sent, commands.Queue.DeclareOk)

    def consume(
        self, queue: str, tag: str = "t", channel: int = 1, no_ack: bool = False
    ) -> None:
        """Subscribe; deliveries come with the next turn."""
        consume = commands.Basic.Consume(queue=queue, consumer_tag=tag, no_ack=no_ack)
        self.send(method(channel, consume))
        self.expect(channel, commands.Basic.ConsumeOk)

    # -- what the client sees -------------------------------------------------

    def take_octets(self) -> bytes:
        """Everything that was written, as a client that reads gets it."""
        pieces = []
        while True:
            self.bench.outputs.take_dirty()
            data = octets_of(self.output)
            self.output.wake_consumers()
            if not data:
                break
            pieces.append(data)
        return b"".join(pieces)

    def take(self) -> list[ReceivedFrame]:
        """The frames that were written since the last time."""
        received, self._unseen = cut(self._unseen + self.take_octets())
        return received

    def expect(self, channel: int, expected: type[MethodT]) -> MethodT:
        """Return the only frame that was written, a method."""
        frames = self.take()
        assert len(frames) == 1, f"expected one {expected.__name__}, got {frames}"
        assert frames[0].channel == channel
        found = frames[0].method
        assert isinstance(found, expected), f"expected {expected.__name__}: {found}"
        return found

    def expect_close(self, channel: int = 0) -> Closed:
        """Return what the only frame says, a close of the connection or channel."""
        if channel:
            closed = self.expect(channel, commands.Channel.Close)
            return _closed("channel", closed)
        return _closed("connection", self.expect(0, commands.Connection.Close))

    def deliveries(self) -> list[bytes]:
        """The bodies that were delivered; only deliveries may have been written."""
        return [body for _, _, body in contents(self.take(), commands.Basic.Deliver)]


def _closed(
    level: str, closed: commands.Channel.Close | commands.Connection.Close
) -> Closed:
    return Closed(
        level,
        closed.reply_code or 0,
        closed.reply_text,
        closed.class_id or 0,
        closed.method_id or 0,
    )


def octets_of(output: Output) -> bytes:
    """What an output has to write this turn."""
    return b"".join(output.take())


def cut(data: bytes) -> tuple[list[ReceivedFrame], bytes]:
    """Cut octets into whole frames; the rest is the beginning of one."""
    frames = []
    at = 0
    while len(data) - at >= 8:
        kind, channel, size = struct.unpack_from(">BHI", data, at)
        end = at + size + 8
        if end > len(data):
            break
        assert data[end - 1] == 0xCE, f"no frame end at {end - 1}"
        frames.append(ReceivedFrame(kind, channel, data[at + 7 : end - 1]))
        at = end
    return frames, data[at:]


def contents(
    frames: list[ReceivedFrame], expected: type[MethodT]
) -> list[tuple[MethodT, bytes, bytes]]:
    """Put methods with content together: method, properties, body.

    Raises:
        AssertionError: the frames are not exactly that, or of several channels at once.
    """
    found = []
    left = list(frames)
    while left:
        first = left.pop(0)
        sent = first.method
        assert isinstance(sent, expected), f"expected {expected.__name__}: {sent}"
        header = left.pop(0)
        assert header.kind == 2, f"expected a header, got {header}"
        assert header.channel == first.channel
        (size,) = struct.unpack_from(">Q", header.payload, 4)
        body = b""
        while len(body) < size:
            piece = left.pop(0)
            assert piece.kind == 3, f"expected a body, got {piece}"
            assert piece.channel == first.channel
            body += piece.payload
        assert len(body) == size
        found.append((sent, header.payload[12:], body))
    return found
