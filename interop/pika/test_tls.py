"""pika over TLS, with a certificate of its own."""

from __future__ import annotations

from pathlib import Path

import pika

from amqpd.testing import AmqpdServer
from tests.support.certificates import Authority
from tests.support.ports import held_port


def test_ssl_options_are_all_that_changes(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("localhost")
    port = held_port()
    env = {
        "AMQPD_TLS_PORT": str(port),
        "AMQPD_TLS_CERT": str(pair.cert),
        "AMQPD_TLS_KEY": str(pair.key),
    }
    with AmqpdServer(env=env):
        parameters = pika.ConnectionParameters(
            "localhost",
            port,
            ssl_options=pika.SSLOptions(authority.client_context(), "localhost"),
        )
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            queue = channel.queue_declare("", exclusive=True).method.queue
            channel.basic_publish("", queue, b"hello")
            for _, _, body in channel.consume(queue, auto_ack=True):
                assert body == b"hello"
                break
            channel.cancel()
