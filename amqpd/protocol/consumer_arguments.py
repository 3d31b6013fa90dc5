"""The arguments of basic.consume: what a consumer may ask for besides its flags.

    x-priority           who is served first; any integer, 0 if nothing is said
    x-consumer-timeout   how long a delivery may stay unacked, in milliseconds; 0 is for
                         ever. The queue may have one for whoever does not say.

Unknown arguments mean nothing. Texts are RabbitMQ's.
"""

from amqpd.broker.arguments import CONSUMER_TIMEOUT, Arguments
from amqpd.broker.errors import PreconditionFailed
from amqpd.broker.queues.queue import Queue


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
    return PreconditionFailed(
        f"invalid arg '{key}' for queue '{queue.name}' in vhost "
        f"'{queue.vhost_name}': {text}"
    )
