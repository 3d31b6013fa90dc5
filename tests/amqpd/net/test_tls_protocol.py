"""TLS over real sockets: handshakes that work or fail, and clients that are slow."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import weakref
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pamqp import commands

from amqpd.auth.certificates import distinguished_name
from amqpd.broker.alarms import ResourceLimit
from amqpd.config import load
from amqpd.net import server as server_module
from amqpd.net import tls_protocol
from amqpd.net.resources import ResourceWatch
from amqpd.net.server import Server
from amqpd.net.tls import TlsCertificates
from amqpd.net.transport import ENCRYPTED_READ_SIZE, SHORT_READ_SIZE
from amqpd.protocol.control import ConnectionOptions
from amqpd.protocol.presence import Presence
from tests.support.certificates import Authority
from tests.support.connection_pair import HANDSHAKE, Bench, method
from tests.support.content import publish
from tests.support.raw_client import PROTOCOL_HEADER
from tests.support.stream_client import StreamClient
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def certificates(authority: Authority) -> TlsCertificates:
    """A certificate for localhost; that of a client is looked at."""
    pair = authority.issue("localhost")
    flags = {
        "tls.cert": str(pair.cert),
        "tls.key": str(pair.key),
        "tls.ca": str(authority.cert),
        "tls.verify": "peer",
    }
    return TlsCertificates(load(None, {}, flags))


@pytest.fixture
async def server(bench: Bench, certificates: TlsCertificates) -> AsyncIterator[Server]:
    fatal: list[BaseException] = []
    options = ConnectionOptions(HANDSHAKE)
    server = Server(
        *(bench.broker, options, ["127.0.0.1"], 0, 0.025, fatal.append, certificates)
    )
    await server.start()
    yield server
    await server.stop("shutdown")
    assert fatal == []


@pytest.fixture
def trust(authority: Authority) -> ssl.SSLContext:
    return authority.client_context()


async def test_a_message_goes_in_and_comes_out(
    server: Server, trust: ssl.SSLContext
) -> None:
    client = await StreamClient.open(server.tls_port, tls=trust)
    await client.call(commands.Queue.Declare(queue="q"), commands.Queue.DeclareOk)
    await client.call(
        commands.Basic.Consume(queue="q", no_ack=True), commands.Basic.ConsumeOk
    )
    bodies = [bytes([number]) * 100_000 for number in range(10)]
    client.send(*(publish("q", body) for body in bodies))
    assert await client.deliveries(10) == bodies
    await client.close()


async def test_an_orderly_close_is_answered_and_the_socket_closed(
    server: Server, trust: ssl.SSLContext
) -> None:
    client = await StreamClient.open(server.tls_port, tls=trust)
    assert server.connection_count() == 1
    client.send(method(0, commands.Connection.Close(200, "bye", 0, 0)))
    await client.expect(commands.Connection.CloseOk)
    assert await client.is_at_end()
    await client.close()
    await wait_until(lambda: server.connection_count() == 0)


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (ssl.TLSVersion.TLSv1_2, ("tlsv1.2", "ecdhe_ecdsa", "aes_256_gcm", "aead")),
        (ssl.TLSVersion.TLSv1_3, ("tlsv1.3", "any", "aes_256_gcm", "aead")),
    ],
)
async def test_the_connection_knows_how_it_is_encrypted_and_who_is_there(
    bench: Bench,
    server: Server,
    authority: Authority,
    version: ssl.TLSVersion,
    said: tuple[str, ...],
) -> None:
    trust = authority.client_context(authority.issue("a.example", common_name="worker"))
    trust.maximum_version = version
    client = await StreamClient.open(server.tls_port, tls=trust)
    [connection] = bench.broker.connections.all()
    peer = connection.facts().tls_peer
    assert peer is not None and peer.certificate is not None
    assert (peer.protocol, peer.key_exchange, peer.cipher, peer.hash) == said
    subject = distinguished_name(peer.certificate.subject)
    assert subject.startswith("CN=worker,OU=")
    assert subject.endswith(",O=Example\\, Inc")
    assert distinguished_name(peer.certificate.issuer).endswith("O=Test CA")
    assert peer.certificate.valid_from == "2020-01-01T00:00:00Z"
    assert peer.certificate.alternative_names == (("DNS", "a.example"),)
    await client.close()


async def test_a_connection_without_tls_says_so(bench: Bench, server: Server) -> None:
    client = await StreamClient.open(server.port)
    [connection] = bench.broker.connections.all()
    assert connection.facts().tls_peer is None
    await client.close()


async def failed_with(
    server: Server, greeting: bytes, caplog: pytest.LogCaptureFixture
) -> str:
    """Return what the log says of somebody who begins so and hangs up at the end."""
    client = await StreamClient.connect(server.tls_port)
    client.send(greeting)
    client.writer.write_eof()
    try:
        await client.reader.read()
    except ConnectionError:
        pass
    await client.close()
    await wait_until(lambda: bool(caplog.messages))
    [line] = caplog.messages
    return line.partition(": ")[2]


@pytest.mark.parametrize(
    ("greeting", "reason"),
    [
        (
            PROTOCOL_HEADER,
            "it speaks AMQP without TLS, which belongs to the other port",
        ),
        (b"GET / HTTP/1.1\r\n\r\n", "it speaks HTTP without TLS"),
        (b"XXXXXXXX", "wrong version number"),
        (b"\x16\x03\x01", "the client hung up"),
    ],
)
async def test_who_speaks_something_else_is_one_line_in_the_log(
    server: Server,
    caplog: pytest.LogCaptureFixture,
    greeting: bytes,
    reason: str,
) -> None:
    said = await failed_with(server, greeting, caplog)
    assert said == f"TLS handshake failed: {reason}"
    assert server.connection_count() == 0


async def test_who_says_nothing_is_no_warning(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG", "amqpd.tls"):
        await failed_with(server, b"", caplog)
    [record] = [one for one in caplog.records if one.name == "amqpd.tls"]
    assert record.levelname == "DEBUG"


async def test_a_client_that_does_not_believe_us_says_so_in_the_log(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    def connect() -> None:
        # asyncio keeps the reason to itself, blocking clients do not.
        with socket.create_connection(("127.0.0.1", server.tls_port)) as plain:
            with pytest.raises(ssl.SSLCertVerificationError):
                ssl.create_default_context().wrap_socket(
                    plain, server_hostname="localhost"
                )

    await asyncio.to_thread(connect)
    await wait_until(lambda: bool(caplog.messages))
    assert caplog.messages[0].endswith("the client says: unknown ca")


async def test_a_client_that_we_do_not_believe_is_told_so(
    server: Server,
    authority: Authority,
    trust: ssl.SSLContext,
    tmp_path_factory: pytest.TempPathFactory,
    caplog: pytest.LogCaptureFixture,
) -> None:
    stranger = Authority(tmp_path_factory.mktemp("stranger")).issue("a.example")
    trust.load_cert_chain(stranger.cert, stranger.key)
    client = await StreamClient.connect(server.tls_port, tls=trust)
    with pytest.raises(ssl.SSLError, match="unknown ca"):
        await client.reader.read()
    with pytest.raises(ssl.SSLError, match="unknown ca"):
        await client.close()
    assert "the client's certificate is refused: unable to get" in caplog.text


async def test_a_handshake_has_its_time(
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(tls_protocol, "HANDSHAKE_SECONDS", 0.05)
    client = await StreamClient.connect(server.tls_port)
    client.send(b"\x16\x03\x01")
    assert await client.reader.read() == b""
    await client.close()
    assert caplog.messages[0].endswith("it took longer than 0.05 s")


async def test_a_stop_does_not_wait_for_handshakes(
    bench: Bench, server: Server
) -> None:
    client = await StreamClient.connect(server.tls_port)
    client.send(b"\x16\x03\x01")
    await wait_until(lambda: bool(server.encrypted()))
    await server.stop("shutdown")
    with pytest.raises(ConnectionResetError):
        await client.reader.read()
    await client.close()


async def test_of_a_failed_handshake_nothing_is_left_without_a_collector(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    gc.collect()
    gc.disable()
    try:
        alive = weakref.WeakSet(server.encrypted())
        client = await StreamClient.connect(server.tls_port)
        await wait_until(lambda: bool(server.encrypted()))
        alive.update(server.encrypted())
        client.send(b"XXXXXXXX")
        await client.reader.read()
        await client.close()
        await wait_until(lambda: not alive)
    finally:
        gc.enable()


async def test_all_sockets_are_read_into_one_buffer_of_which_little_is_used_in_need(
    bench: Bench, server: Server, trust: ssl.SSLContext, tmp_path: Path
) -> None:
    clients = [await StreamClient.connect(server.tls_port, tls=trust) for _ in "ab"]
    first, second = (each.get_buffer(-1) for each in server.encrypted())
    assert first.obj is second.obj
    assert len(first) == ENCRYPTED_READ_SIZE
    resources = ResourceWatch(bench.broker, tmp_path)
    server.watch(resources)
    bench.broker.alarms.set_memory_watermark(ResourceLimit(0))
    await wait_until(lambda: resources.is_memory_short)
    assert {len(each.get_buffer(-1)) for each in server.encrypted()} == {
        SHORT_READ_SIZE
    }
    for client in clients:
        await client.close()


async def test_a_client_that_does_not_read_costs_no_more_than_the_marks(
    bench: Bench, server: Server, trust: ssl.SSLContext
) -> None:
    declare, body = commands.Queue.Declare(queue="q"), bytes(50_000)
    slow = await StreamClient.open(server.tls_port, heartbeat=0, tls=trust)
    await slow.call(declare, commands.Queue.DeclareOk)
    consume = commands.Basic.Consume(queue="q", no_ack=True)
    await slow.call(consume, commands.Basic.ConsumeOk)
    slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
    publisher = await StreamClient.open(server.port)
    queue = bench.broker.vhosts["/"].queues["q"]
    for _ in range(20):
        publisher.send(*[publish("q", body)] * 20)
        # The answer says that all of it was taken.
        await publisher.call(commands.Basic.Qos(), commands.Basic.QosOk)
    [connection] = [
        one for one in bench.broker.connections.all() if one.facts().heartbeat_s == 0
    ]
    assert isinstance(connection, Presence)
    assert not connection._output.has_bursts
    # A second write is what asyncio has enciphered and not sent.
    assert connection.facts().bytes_waiting < 700_000
    # 20 MB were published; what the queue has not is in buffers, most in the kernel's.
    assert queue.ready_count * len(body) > 8_000_000
    slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
    assert len(await slow.deliveries(400)) == 400
    await publisher.close()
    await slow.close()


async def test_a_client_that_is_not_read_waits(
    server: Server, bench: Bench, trust: ssl.SSLContext
) -> None:
    client = await StreamClient.open(server.tls_port, tls=trust)
    await client.call(commands.Queue.Declare(queue="q"), commands.Queue.DeclareOk)
    alarms, queue = bench.broker.alarms, bench.broker.vhosts["/"].queues["q"]
    alarms.set_memory_watermark(ResourceLimit(1 << 30))
    alarms.on_measured(1 << 31, 1 << 60, server.ticker.now_ms(), 0)
    client.send(*[publish("q", bytes(100_000))] * 300)
    await client.expect(commands.Connection.Blocked)
    await wait_until(lambda: bool(server.ticker.paused))
    [connection] = bench.broker.connections.all()
    assert connection.facts().bytes_received < 5_000_000
    assert queue.ready_count == 0
    alarms.set_memory_watermark(ResourceLimit(1 << 60))
    server.ticker.wake()
    await client.expect(commands.Connection.Unblocked)
    await client.call(commands.Basic.Qos(), commands.Basic.QosOk)
    assert queue.ready_count == 300
    await client.close()


async def test_renewed_certificates_are_noticed_without_anybody_asking(
    bench: Bench, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "LOOK_SECONDS", 0.001)
    pair = authority.issue("localhost")
    flags = {"tls.cert": str(pair.cert), "tls.key": str(pair.key)}
    certificates = TlsCertificates(load(None, {}, flags))
    before = certificates.context
    options, fatal = ConnectionOptions(HANDSHAKE), list[BaseException]()
    server = Server(
        *(bench.broker, options, ["127.0.0.1"], 0, 0.025, fatal.append, certificates)
    )
    await server.start()
    # For a moment they do not fit together: that is an error, and passes.
    authority.issue_to(pair, "localhost")
    await wait_until(lambda: certificates.context is not before)
    await server.stop("shutdown")


async def test_only_tls_is_listened_on_if_there_is_no_other_port(
    bench: Bench, certificates: TlsCertificates, trust: ssl.SSLContext
) -> None:
    options, fatal = ConnectionOptions(HANDSHAKE), list[BaseException]()
    server = Server(
        *(bench.broker, options, ["127.0.0.1"], None, 0.025, fatal.append),
        certificates,
    )
    await server.start()
    [bound] = server.bound()
    assert bound.is_tls
    assert str(bound) == f"127.0.0.1:{server.tls_port} (TLS)"
    await (await StreamClient.open(server.tls_port, tls=trust)).close()
    await server.stop("shutdown")


async def test_both_ports_are_suspended_and_resumed(
    server: Server, trust: ssl.SSLContext
) -> None:
    ports = server.port, server.tls_port
    server.suspend()
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
    await server.resume()
    assert (server.port, server.tls_port) == ports
    await (await StreamClient.open(server.tls_port, tls=trust)).close()
    await (await StreamClient.open(server.port)).close()
