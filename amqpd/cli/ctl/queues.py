"""Queues emptied and deleted, messages published and got, one at a time."""

from __future__ import annotations

import sys
from typing import Any, Final

from amqpd.cli.ctl.errors import EXIT_DATA, EXIT_USAGE, Failure
from amqpd.cli.ctl.table import Answer, Table
from amqpd.cli.ctl.verb import Call, Option, Verb, json_object

_ACK_MODES: Final = (
    "ack_requeue_true",
    "ack_requeue_false",
    "reject_requeue_true",
    "reject_requeue_false",
)
_MESSAGE_COLUMNS: Final = (
    "routing_key",
    "exchange",
    "message_count",
    "payload",
    "payload_bytes",
    "payload_encoding",
    "properties",
    "redelivered",
)


def purge_queue(call: Call) -> Answer:
    """Drop every message that is ready in a queue."""
    name = call.said.queue
    call.api.delete(
        "queues", call.vhost, name, "contents", missing=_no_queue(call, name)
    )
    return None


def delete_queue(call: Call) -> Answer:
    """Take a queue away, with its messages."""
    name = call.said.queue
    # As `rabbitmqctl`, whose code for this is that of a wrong command line.
    missing = Failure(f"Queue not found: '{name}' in vhost '{call.vhost}'", EXIT_USAGE)
    queue = call.api.get(
        "queues", call.vhost, name, query={"columns": "messages_ready"}, missing=missing
    )
    asked = {"if-empty": call.said.if_empty, "if-unused": call.said.if_unused}
    query = {key: "true" for key, is_asked in asked.items() if is_asked}
    call.api.delete("queues", call.vhost, name, query=query, missing=missing)
    count = queue.get("messages_ready", 0)
    return f"Queue was successfully deleted with {count} ready messages"


def publish(call: Call) -> Answer:
    """Publish a message, and say whether a queue took it.

    Raises:
        Failure: none did.
    """
    exchange = call.said.exchange or "amq.default"
    payload, encoding = _payload(call)
    body = {
        "properties": _properties(call),
        "routing_key": call.said.routing_key,
        "payload": payload,
        "payload_encoding": encoding,
    }
    missing = Failure(f"no exchange '{exchange}' in vhost '{call.vhost}'", EXIT_DATA)
    reply = call.api.post(
        "exchanges", call.vhost, exchange, "publish", body=body, missing=missing
    )
    if not reply["routed"]:
        raise Failure("published, but no queue took it", EXIT_DATA)
    return "Message published"


def _payload(call: Call) -> tuple[str, str]:
    """Return the payload as JSON can carry it, and how."""
    said: str | None = call.said.payload
    data = sys.stdin.buffer.read() if said in (None, "-") else str(said).encode()
    if call.said.base64:
        return data.decode(errors="replace").strip(), "base64"
    try:
        return data.decode(), "string"
    except UnicodeDecodeError:
        from base64 import b64encode

        return b64encode(data).decode(), "base64"


def _properties(call: Call) -> dict[str, object]:
    properties: dict[str, object] = {}
    if call.said.properties is not None:
        properties = json_object(call.said.properties, "--properties")
    if call.said.persistent:
        properties["delivery_mode"] = 2
    return properties


def get(call: Call) -> Answer:
    """Return messages from the head of a queue; unless told otherwise they stay."""
    name = call.said.queue
    body: dict[str, Any] = {
        "count": _whole_number(call.said.count, "--count"),
        "ackmode": call.said.ackmode,
        "encoding": call.said.encoding,
    }
    if call.said.truncate is not None:
        body["truncate"] = _whole_number(call.said.truncate, "--truncate")
    rows = call.api.post(
        "queues", call.vhost, name, "get", body=body, missing=_no_queue(call, name)
    )
    return Table(_MESSAGE_COLUMNS, rows)


def _whole_number(text: str, what: str) -> int:
    if not text.isdecimal():
        raise Failure(f"{what} must be a whole number, not {text!r}", EXIT_USAGE)
    return int(text)


def _no_queue(call: Call, name: str) -> Failure:
    return Failure(f"no queue '{name}' in vhost '{call.vhost}'")


VERBS: Final = (
    Verb(
        "purge_queue",
        purge_queue,
        "drop the messages that are ready in a queue",
        "queue",
        banner="Purging queue '{queue}' in vhost '{vhost}' ...",
    ),
    Verb(
        "delete_queue",
        delete_queue,
        "take a queue away, with its messages",
        "queue",
        (
            Option("--if-empty", "only if no message is in it"),
            Option("--if-unused", "only if it has no consumer"),
        ),
        banner="Deleting queue '{queue}' on vhost '{vhost}' ...",
    ),
    Verb(
        "publish",
        publish,
        "publish a message; the payload is read from standard input if it is - or "
        "missing; '' is the default exchange",
        "exchange routing_key payload?",
        (
            Option("--properties", 'like {"content_type": "text/plain"}', "JSON"),
            Option("--persistent", "delivery mode 2"),
            Option("--base64", "the payload is given in base64"),
        ),
    ),
    Verb(
        "get",
        get,
        "look at the first messages of a queue, or take them",
        "queue",
        (
            Option("--count", "how many at most", "COUNT", default="1"),
            Option(
                "--ackmode",
                "ack_requeue_true puts them back, ack_requeue_false takes them",
                choices=_ACK_MODES,
                default="ack_requeue_true",
            ),
            Option(
                "--encoding",
                "base64: every payload so; auto: those that are no text",
                choices=("auto", "base64"),
                default="auto",
            ),
            Option("--truncate", "cut payloads to that many bytes", "BYTES"),
        ),
    ),
)
