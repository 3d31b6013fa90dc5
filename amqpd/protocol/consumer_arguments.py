"""The arguments of basic.consume: what a consumer may ask for besides its flags.

    x-priority           who is served first; any integer, 0 if nothing is said
    x-consumer-timeout   how long a delivery may stay unacked, in milliseconds; 0 is for
                         ever. The queue may have one for whoever does not say.

What only consumers of streams may ask for is refused, for it would change nothing where
somebody counts on it. Unknown arguments mean nothing. Texts are RabbitMQ's.
"""

from typing import Final

from amqpd.broker.arguments import (
    CONSUMER_TIMEOUT,
    Arguments,
    module_name,
    queue_type,
)
from amqpd.broker.errors import PreconditionFailed
from amqpd.broker.queues.queue import Queue

_OF_STREAMS: Final = ("x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered")


def check_type(queue: Queue, arguments: Arguments) -> None:
    """Check that nothing is asked for that only another type of queue can do.

    Raises:
        PreconditionFailed: there is.
    """
    for key in _OF_STREAMS:
        if key in arguments.table:
            kind = module_name(queue_type(queue.arguments))
            raise PreconditionFailed(
                f"invalid arg '{key}' for {_resource(queue)} of queue type {kind}"
            )


def priority(queue: Queue, arguments: Arguments) -> int:
    """Return the consumer's priority.

    Raises:
        PreconditionFailed: it is no integer.
    """
    return _integer(queue, arguments, "x-priority", 0)


def check_timeout(queue: Queue, arguments: Arguments) -> None:
    """Check how long a consumer wants to keep a delivery.

    Raises:
        PreconditionFailed: it is no integer, or negative.
    """
    value = _integer(queue, arguments, CONSUMER_TIMEOUT, 0)
    if value < 0:
        raise _invalid(queue, CONSUMER_TIMEOUT, f"{{value_negative,{value}}}")


def timeout_ms(queue: Queue, table: dict[str, object]) -> int:
    """Return how long a delivery may stay unacked by these arguments, as of now.

    0 is for ever. The arguments of the consumer have been checked.
    """
    value = table.get(CONSUMER_TIMEOUT)
    if isinstance(value, int):
        return value
    return 0 if queue.keeper is None else int(queue.keeper.rules.consumer_timeout_ms)


def _integer(queue: Queue, arguments: Arguments, key: str, default: int) -> int:
    value = arguments.table.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        text = f'"expected integer, got {arguments.type_name(key)}"'
        raise _invalid(queue, key, text)
    return value


def _invalid(queue: Queue, key: str, text: str) -> PreconditionFailed:
    return PreconditionFailed(f"invalid arg '{key}' for {_resource(queue)}: {text}")


def _resource(queue: Queue) -> str:
    return f"queue '{queue.name}' in vhost '{queue.vhost_name}'"
