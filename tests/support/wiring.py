"""Exchanges, queues and bindings as one raw client makes them, and what arrives where.

wiring = Wiring(client, fresh_name)         channel 1, in confirm mode from now on
logs, errors = wiring.exchange("topic"), wiring.queue()
wiring.bind(errors, logs, "*.error")
wiring.send(logs, "disk.error", b"full")    returns when it is confirmed
assert wiring.bodies(errors) == [b"full"]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from pamqp import commands
from pamqp.commands import Basic, Exchange, Queue
from pamqp.common import FieldTable

from tests.support.raw_client import Message, RawClient


class Wiring:
    """Names are fresh, queues are exclusive, every publish is confirmed."""

    def __init__(self, client: RawClient, fresh_name: Callable[[], str]) -> None:
        self.client = client
        self._fresh_name = fresh_name
        client.call(1, commands.Confirm.Select(), commands.Confirm.SelectOk)

    def exchange(
        self,
        kind: str = "direct",
        arguments: Mapping[str, object] | None = None,
        *,
        internal: bool = False,
        durable: bool = False,
    ) -> str:
        """Declare an exchange under a fresh name, which is returned."""
        name = self._fresh_name()
        self.declare(name, kind, arguments, internal=internal, durable=durable)
        return name

    def declare(
        self,
        name: str,
        kind: str = "direct",
        arguments: Mapping[str, object] | None = None,
        *,
        internal: bool = False,
        durable: bool = False,
    ) -> None:
        """Declare an exchange under this name."""
        table = cast(FieldTable, dict(arguments or {}))
        method = Exchange.Declare(
            0, name, kind, durable=durable, internal=internal, arguments=table
        )
        self.client.call(1, method, Exchange.DeclareOk)

    def fresh_name(self) -> str:
        """Return a name that nobody else uses."""
        return self._fresh_name()

    def queue(self, *exchanges: str, key: str = "k") -> str:
        """Declare a queue, bind it to the exchanges, and return its name."""
        name = self.client.temporary_queue()
        for exchange in exchanges:
            self.bind(name, exchange, key)
        return name

    def bind(
        self,
        queue: str,
        exchange: str,
        key: str = "k",
        arguments: Mapping[str, object] | None = None,
    ) -> None:
        """Bind a queue."""
        table = cast(FieldTable, dict(arguments or {}))
        method = Queue.Bind(0, queue, exchange, key, arguments=table)
        self.client.call(1, method, Queue.BindOk)

    def unbind(self, queue: str, exchange: str, key: str = "k") -> None:
        """Undo the binding of a queue."""
        method = Queue.Unbind(0, queue, exchange, key)
        self.client.call(1, method, Queue.UnbindOk)

    def bind_exchange(self, destination: str, source: str, key: str = "k") -> None:
        """Bind an exchange to an exchange."""
        method = Exchange.Bind(0, destination, source, key)
        self.client.call(1, method, Exchange.BindOk)

    def send(
        self,
        exchange: str,
        key: str = "k",
        body: bytes = b"x",
        properties: bytes = b"\x00\x00",
        *,
        mandatory: bool = False,
    ) -> Message | None:
        """Publish and wait for the ack; return the message if it came back."""
        publish = Basic.Publish(0, exchange, key, mandatory=mandatory)
        self.client.publish(1, publish, body, properties)
        received = self.client.next_frame().method
        returned = None
        if isinstance(received, Basic.Return):
            returned = self.client.content_of(1, received)
            received = self.client.next_frame().method
        assert isinstance(received, Basic.Ack), received
        return returned

    def is_routed(self, exchange: str, key: str = "k") -> bool:
        """Say whether a mandatory message finds a queue."""
        return self.send(exchange, key, mandatory=True) is None

    def messages(self, queue: str) -> list[Message]:
        """Take all messages out of a queue."""
        found = []
        while (message := self.client.get(queue)) is not None:
            found.append(message)
        return found

    def bodies(self, queue: str) -> list[bytes]:
        """Take all messages out of a queue and return their bodies."""
        return [message.body for message in self.messages(queue)]
