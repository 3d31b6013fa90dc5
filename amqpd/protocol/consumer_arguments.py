"""The arguments of basic.consume: what a consumer may ask for besides its flags.

    x-priority           who is served first; any integer, 0 if nothing is said
    x-consumer-timeout   how long a delivery may stay unacked, in milliseconds; 0 is for
                         ever. The queue may have one for whoever does not say.

Unknown arguments mean nothing. Texts are RabbitMQ's.
"""

from amqpd.broker.arguments import CONSUMER_TIMEOUT, Arguments
from amqpd.broker.errors import PreconditionFailed
from amqpd.broker.queue import Queue


def priority(queue: Queue, arguments: Arguments) -> int:
    """Return the consumer's priority.

    Raises:
        PreconditionFailed: it is no integer.
    """
    return _integer(queue, arguments, "x-priority", 0)


def timeout_ms(queue: Queue, arguments: Arguments) -> int:
    """Return how long a delivery to the consumer may stay unacked; 0 is for ever.

    Raises:
        PreconditionFailed: it is no integer, or negative.
    """
    of_queue = queue.arguments.get(CONSUMER_TIMEOUT)
    default = of_queue if isinstance(of_queue, int) else 0
    value = _integer(queue, arguments, CONSUMER_TIMEOUT, default)
    if value < 0:
        raise _invalid(queue, CONSUMER_TIMEOUT, f"{{value_negative,{value}}}")
    return value


def _integer(queue: Queue, arguments: Arguments, key: str, default: int) -> int:
    value = arguments.table.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        text = f'"expected integer, got {arguments.type_name(key)}"'
        raise _invalid(queue, key, text)
    return value


def _invalid(queue: Queue, key: str, text: str) -> PreconditionFailed:
    return PreconditionFailed(
        f"invalid arg '{key}' for queue '{queue.name}' in vhost "
        f"'{queue.vhost_name}': {text}"
    )
