"""TLS as its users meet it: connections, clients' certificates, renewals, mistakes."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aio_pika
import pika
import pytest
from pamqp import commands

from amqpd.cli.ping import NoAnswer, ping
from amqpd.testing import AmqpdServer, ServerFailed, amqpd_command
from tests.support.certificates import Authority, Pair
from tests.support.http_client import HttpClient
from tests.support.ports import held_port
from tests.support.raw_client import (
    METHOD,
    Endpoint,
    RawClient,
    encode_frame,
    encode_start_ok,
)
from tests.support.waiting import eventually


@dataclass(frozen=True)
class Secured:
    """A broker that listens with TLS, too, and who vouches for it."""

    server: AmqpdServer
    port: int
    authority: Authority

    def client(self, pair: Pair | None = None) -> RawClient:
        """A connection on which nothing has been said but TLS."""
        endpoint = Endpoint("127.0.0.1", self.port, "guest", "guest", "/")
        return RawClient(endpoint, tls=self.authority.client_context(pair))

    def certificate(self) -> bytes | None:
        """What a client that comes now is shown."""
        with socket.create_connection(("localhost", self.port), 10) as plain:
            context = self.authority.client_context()
            with context.wrap_socket(plain, server_hostname="localhost") as secured:
                return secured.getpeercert(binary_form=True)


def environment(port: int, pair: Pair, **others: str) -> dict[str, str]:
    names = {"port": str(port), "cert": str(pair.cert), "key": str(pair.key), **others}
    return {f"AMQPD_TLS_{name.upper()}": value for name, value in names.items()}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secured(authority: Authority) -> Iterator[Secured]:
    """Certificates of clients are looked at; their common name is the user's."""
    port = held_port()
    env = environment(
        port,
        authority.issue("localhost"),
        ca=str(authority.cert),
        verify="peer",
        login_from="common_name",
    )
    with AmqpdServer(http=True, env=env) as server:
        with HttpClient(server.http_port, "guest", "guest") as admin:
            user = {"password_hash": "", "tags": ""}
            assert admin.put("/api/users/worker", user).status == 201
            rights = {"configure": "^w-", "write": ".*", "read": ".*"}
            path = "/api/permissions/%2F/worker"
            assert admin.put(path, rights).status == 201
        yield Secured(server, port, authority)


def parameters(secured: Secured, pair: Pair | None = None, **others: Any) -> Any:
    context = secured.authority.client_context(pair)
    return pika.ConnectionParameters(
        "localhost",
        secured.port,
        ssl_options=pika.SSLOptions(context, "localhost"),
        **others,
    )


def test_pika_publishes_and_gets_over_tls(secured: Secured) -> None:
    with pika.BlockingConnection(parameters(secured)) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.confirm_delivery()
        for size in (0, 1, 16_384, 1_000_000):
            channel.basic_publish("", queue, b"x" * size)
            assert channel.basic_get(queue, auto_ack=True)[2] == b"x" * size


async def test_aio_pika_consumes_over_tls(secured: Secured) -> None:
    connection = await aio_pika.connect(
        host="localhost",
        port=secured.port,
        ssl=True,
        ssl_context=secured.authority.client_context(),
    )
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        for number in range(20):
            message = aio_pika.Message(b"%d" % number)
            await channel.default_exchange.publish(message, queue.name)
        async with queue.iterator(timeout=20) as messages:
            for number in range(20):
                assert (await anext(messages)).body == b"%d" % number


def test_the_certificate_is_the_login_of_a_user_without_a_password(
    secured: Secured,
) -> None:
    pair = secured.authority.issue("x.example", common_name="worker")
    external = pika.credentials.ExternalCredentials()
    with pika.BlockingConnection(
        parameters(secured, pair, credentials=external)
    ) as connection:
        channel = connection.channel()
        channel.queue_declare("w-mine", exclusive=True)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
            channel.queue_declare("other", exclusive=True)
        assert caught.value.reply_code == 403


def test_a_certificate_of_nobody_is_refused_and_the_log_says_whose(
    secured: Secured,
) -> None:
    pair = secured.authority.issue("x.example", common_name="nobody")
    external = pika.credentials.ExternalCredentials()
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(parameters(secured, pair, credentials=external))
    text = "there is no user 'nobody', whom the certificate names"
    # The answer may be there first.
    eventually(lambda: text in secured.server.log)


def test_external_is_offered_to_who_shows_a_certificate(secured: Secured) -> None:
    pair = secured.authority.issue("x.example")
    plain = RawClient(Endpoint.from_url(secured.server.url))
    offered = []
    for client in (plain, secured.client(), secured.client(pair)):
        with client:
            offered.append(client.start().mechanisms)
    assert offered == ["PLAIN AMQPLAIN"] * 2 + ["PLAIN AMQPLAIN EXTERNAL"]


def test_external_without_tls_is_a_mechanism_that_nobody_knows(
    secured: Secured,
) -> None:
    with RawClient(Endpoint.from_url(secured.server.url)) as client:
        client.start()
        client.send_bytes(encode_frame(METHOD, 0, encode_start_ok(b"EXTERNAL", b"")))
        closed = client.expect_close(0)
    assert closed.text == (
        "COMMAND_INVALID - unknown authentication mechanism 'EXTERNAL'"
    )


def test_the_api_shows_how_a_client_is_connected_and_who_it_is(
    secured: Secured,
) -> None:
    pair = secured.authority.issue("x.example", common_name="ann")
    with HttpClient(secured.server.http_port, "guest", "guest") as admin:
        with secured.client(pair) as client:
            client.open()
            eventually(lambda: len(admin.get("/api/connections")) == 1)
            [shown] = admin.get("/api/connections")
            path = "/api/connections/" + quote(shown["name"], safe="")
            assert admin.get(path)["ssl"] is True
            client.close()
    assert shown["ssl_protocol"] == "tlsv1.3"
    assert shown["ssl_key_exchange"] == "any"
    assert shown["ssl_cipher"] == "aes_256_gcm"
    assert shown["ssl_hash"] == "aead"
    assert shown["peer_cert_subject"].startswith("CN=ann,OU=")
    assert shown["peer_cert_issuer"].endswith("O=Test CA")
    assert shown["peer_cert_validity"].startswith("2020-01-01T00:00:00Z - ")


def test_a_certificate_that_ends_soon_fails_the_check_for_it(
    authority: Authority,
) -> None:
    until = datetime.now(UTC) + timedelta(days=10)
    pair, port = authority.issue("localhost", valid_until=until), held_port()
    checks = "/api/health/checks/certificate-expiration"
    with AmqpdServer(http=True, env=environment(port, pair)) as server:
        with HttpClient(server.http_port, "guest", "guest") as admin:
            assert admin.get(f"{checks}/1/weeks") == {"status": "ok"}
            reply = admin.call("GET", f"{checks}/2/weeks")
    assert reply.status == 503
    assert reply.reason == "Certificates expiring"
    [expired] = reply.json["expired"]
    assert (expired["protocol"], expired["port"]) == ("amqp/ssl", port)
    assert expired["certfile_expires_on"] == [until.strftime("%Y-%m-%d %H:%M:%S")]


def test_the_event_of_a_connection_says_how_it_is_encrypted(secured: Secured) -> None:
    with RawClient(Endpoint.from_url(secured.server.url)) as listener:
        listener.open().open_channel()
        declare = commands.Queue.Declare(0, "events", exclusive=True)
        listener.call(1, declare, commands.Queue.DeclareOk)
        bind = commands.Queue.Bind(
            queue="events",
            exchange="amq.rabbitmq.event",
            routing_key="connection.created",
        )
        listener.call(1, bind, commands.Queue.BindOk)
        consume = commands.Basic.Consume(queue="events", no_ack=True)
        listener.call(1, consume, commands.Basic.ConsumeOk)
        with secured.client() as client:
            client.open()
            message = listener.expect_message(1, commands.Basic.Deliver)
            client.close()
    assert b"\x0cssl_protocolS\x00\x00\x00\x07tlsv1.3" in message.properties


def test_both_ports_are_listed_and_suspended_together(secured: Secured) -> None:
    def listeners() -> list[tuple[str, int, bool]]:
        found = admin.get("/api/overview")["listeners"]
        return [(one["protocol"], one["port"], one["tls"]) for one in found][:-1]

    both = [("amqp", secured.server.port, False), ("amqp/ssl", secured.port, True)]
    with HttpClient(secured.server.http_port, "guest", "guest") as admin:
        assert listeners() == both
        check = f"/api/health/checks/port-listener/{secured.port}"
        assert admin.get(check)["status"] == "ok"
        admin.put("/api/amqpd/listeners", {"state": "suspended"})
        assert listeners() == []
        with pytest.raises(ConnectionRefusedError):
            secured.client()
        admin.put("/api/amqpd/listeners", {"state": "running"})
        assert listeners() == both
    with secured.client() as client:
        client.open().close()


def test_the_port_with_tls_comes_back_when_the_app_is_started_again(
    secured: Secured,
) -> None:
    def answers() -> bool:
        try:
            with secured.client() as client:
                client.open().close()
        except OSError:
            return False
        return True

    def is_told(state: str) -> bool:
        try:
            with HttpClient(secured.server.http_port, "guest", "guest") as admin:
                return admin.put("/api/amqpd/app", {"state": state}).status == 204
        except OSError:
            # The API changes hands.
            return False

    assert is_told("stopped")
    eventually(lambda: not answers())
    eventually(lambda: is_told("running"))
    eventually(answers)


def test_ping_finds_the_broker_behind_tls_and_nobody_behind_the_other_port(
    secured: Secured,
) -> None:
    ping("127.0.0.1", secured.port, is_tls=True)
    with pytest.raises(NoAnswer):
        ping("127.0.0.1", secured.server.port, is_tls=True)


def test_who_speaks_the_wrong_language_is_named_in_the_log(secured: Secured) -> None:
    plain = Endpoint("127.0.0.1", secured.port, "guest", "guest", "/")
    with RawClient(plain) as client:
        client.send_bytes(b"AMQP\x00\x00\x09\x01")
        client.expect_end()
    without = Endpoint.from_url(secured.server.url)
    with pytest.raises(ssl.SSLError):
        RawClient(without, tls=secured.authority.client_context())
    texts = (
        "TLS handshake failed: it speaks AMQP without TLS",
        "not AMQP 0-9-1 but TLS: it came to the port that is without TLS",
    )
    eventually(lambda: all(text in secured.server.log for text in texts))
    # It costs nobody else anything.
    with secured.client() as client:
        client.open().close()


def test_a_client_without_a_certificate_stays_outside_if_it_needs_one(
    authority: Authority,
) -> None:
    port = held_port()
    env = environment(
        port,
        authority.issue("localhost"),
        ca=str(authority.cert),
        verify="peer",
        require_client_cert="true",
    )
    with AmqpdServer(env=env) as server:
        secured = Secured(server, port, authority)
        with secured.client() as client:
            with pytest.raises(ssl.SSLError, match="certificate required"):
                client.start()
        with secured.client(authority.issue("x.example")) as client:
            client.open().close()
        eventually(lambda: "peer did not return a certificate" in server.log)


def test_a_renewed_certificate_is_shown_after_a_reload(
    authority: Authority, tmp_path: Path
) -> None:
    port = held_port()
    pair = Pair(tmp_path / "cert.pem", tmp_path / "key.pem")
    authority.issue_to(pair, "localhost")
    with AmqpdServer(env=environment(port, pair)) as server:
        secured = Secured(server, port, authority)
        first = secured.certificate()
        with secured.client() as old:
            old.open().open_channel()
            authority.issue_to(pair, "localhost")
            assert secured.certificate() == first
            os.kill(server.pid, signal.SIGHUP)
            eventually(lambda: "cert.pem is reloaded" in server.log)
            second = secured.certificate()
            assert second != first
            pair.key.write_text("nonsense")
            os.kill(server.pid, signal.SIGHUP)
            eventually(lambda: "the old one stays" in server.log)
            assert secured.certificate() == second
            # Who is connected notices nothing.
            declare = commands.Queue.Declare(0, "q", exclusive=True)
            old.call(1, declare, commands.Queue.DeclareOk)
            old.close()


def test_a_rabbitmq_conf_may_have_tls_only(
    authority: Authority, tmp_path: Path
) -> None:
    pair, port = authority.issue("localhost"), held_port()
    conf = tmp_path / "rabbitmq.conf"
    conf.write_text(
        f"listeners.tcp = none\nlisteners.ssl.1 = 127.0.0.1:{port}\n"
        f"ssl_options.certfile = {pair.cert}\nssl_options.keyfile = {pair.key}\n"
        f"ssl_options.depth = 2\n"
    )
    command = [*amqpd_command(), "serve", "--config", str(conf)]
    command += ["--data-dir", str(tmp_path / "data")]
    command += ["--http-port", "0", "--prometheus-port", "0"]
    log = tmp_path / "log"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=stderr, text=True
        )
    assert process.stdout is not None
    with process.stdout as output:
        assert f"listens on 127.0.0.1:{port} (TLS); data in" in output.readline()
    endpoint = Endpoint("127.0.0.1", port, "guest", "guest", "/")
    with RawClient(endpoint, tls=authority.client_context()) as client:
        client.open().close()
    process.terminate()
    assert process.wait(20) == 0
    assert f"{conf}:5: ssl_options.depth has no effect in amqpd" in log.read_text()


def test_what_cannot_be_used_ends_with_78_before_anything_is_opened(
    authority: Authority, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    pair = authority.issue("localhost")
    other = authority.issue("localhost")
    env = environment(held_port(), Pair(pair.cert, other.key))
    starting = AmqpdServer(env=env, data_dir=data)
    with pytest.raises(ServerFailed) as caught:
        starting.start()
    assert caught.value.exit_code == 78
    assert f"AMQPD_TLS_KEY: tls.key {other.key} is not the key of" in starting.log
    assert not data.exists()
    starting.close()


def test_a_certificate_that_has_expired_is_used_and_warned_about(
    authority: Authority,
) -> None:
    until = datetime(2021, 1, 1, tzinfo=UTC)
    old, port = authority.issue("localhost", valid_until=until), held_port()
    with AmqpdServer(env=environment(port, old)) as server:
        assert f"{old.cert} has expired on Jan  1 00:00:00 2021 GMT" in server.log
        with pytest.raises(ssl.SSLCertVerificationError, match="has expired"):
            Secured(server, port, authority).client()
        eventually(lambda: "the client says: certificate expired" in server.log)
