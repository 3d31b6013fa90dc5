"""One large message and ten consumers, one of whom does not read.

The body is to be in memory once, however many get it and however slow they are. What
is measured is the highest resident memory of the broker from the first octet published
to the last one that a reading consumer has got, over what it was before.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import Final

from pamqp import commands

from tests.bench.broker import Target
from tests.bench.figures import Figures
from tests.bench.machine import reset_highest_resident, resident_mb
from tests.support.raw_client import (
    BODY,
    HEADER,
    Endpoint,
    RawClient,
    encode_frame,
    encode_header,
    encode_method,
)

BODY_SIZE: Final = 64 * 1024 * 1024
CONSUMERS: Final = 10
FRAME_MAX: Final = 131072
FRAME_OVERHEAD: Final = 8
TIMEOUT_SECONDS: Final = 60.0
EXCHANGE: Final = "amqpd-bench-large"


class ReadingConsumer(threading.Thread):
    """Reads frames until a whole body has come, and keeps nothing of it."""

    def __init__(self, client: RawClient) -> None:
        super().__init__(daemon=True)
        self._client = client
        self.got = 0

    def run(self) -> None:
        while self.got < BODY_SIZE:
            received = self._client.receive_frame()
            if received.kind == BODY:
                self.got += len(received.payload)


def measure_large_body(target: Target) -> Figures:
    """Publish the message, wait until nine of the ten consumers have all of it.

    Raises:
        AssertionError: one of the nine did not get it.
    """
    endpoint = Endpoint.from_url(target.uri)
    with ExitStack() as clients:
        publisher = clients.enter_context(RawClient(endpoint, TIMEOUT_SECONDS))
        publisher.open().open_channel()
        declare = commands.Exchange.Declare(0, EXCHANGE, "fanout")
        publisher.call(1, declare, commands.Exchange.DeclareOk)
        sockets = [
            clients.enter_context(RawClient(endpoint, TIMEOUT_SECONDS))
            for _ in range(CONSUMERS)
        ]
        for client in sockets:
            _subscribe(client)
        reset_highest_resident(target.pid)
        before = resident_mb(target.pid)
        started = time.monotonic()
        readers = [ReadingConsumer(client) for client in sockets[1:]]
        for reader in readers:
            reader.start()
        _publish(publisher)
        for reader in readers:
            reader.join(TIMEOUT_SECONDS)
        assert [reader.got for reader in readers] == [BODY_SIZE] * (CONSUMERS - 1)
        seconds = time.monotonic() - started
        highest = resident_mb(target.pid, "VmHWM")
        delete = commands.Exchange.Delete(0, EXCHANGE)
        publisher.call(1, delete, commands.Exchange.DeleteOk)
    return {"resident_rise_mb": highest - before, "delivered_in_s": seconds}


def _subscribe(client: RawClient) -> None:
    client.open().open_channel()
    queue = client.temporary_queue()
    bind = commands.Queue.Bind(0, queue, EXCHANGE)
    client.call(1, bind, commands.Queue.BindOk)
    consume = commands.Basic.Consume(0, queue, no_ack=True)
    client.call(1, consume, commands.Basic.ConsumeOk)


def _publish(client: RawClient) -> None:
    payload = bytes(FRAME_MAX - FRAME_OVERHEAD)
    client.send_bytes(encode_method(1, commands.Basic.Publish(0, EXCHANGE, "")))
    client.send_frame(HEADER, 1, encode_header(BODY_SIZE))
    frame = encode_frame(BODY, 1, payload)
    whole, rest = divmod(BODY_SIZE, len(payload))
    for _ in range(whole):
        client.send_bytes(frame)
    client.send_frame(BODY, 1, payload[:rest])
