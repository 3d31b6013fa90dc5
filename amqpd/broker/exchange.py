"""An exchange as it was declared, and the rules about exchange names.

What is bound to an exchange and where a message goes is the router's; here is what a
client said when it declared it, which a second declaration must repeat. Six exchanges
are there in every virtual host from its beginning, besides the default exchange, which
is no object at all: it has the empty name and leads to the queue of the routing key.
"""

from typing import Final, final

from amqpd.broker.arguments import (
    ALTERNATE_EXCHANGE,
    Arguments,
    check_same_argument,
    check_same_property,
)
from amqpd.broker.errors import AccessRefused, NotFound, PreconditionFailed
from amqpd.broker.policies.policy import Policy
from routing.delayed import DELAYED
from routing.errors import RoutingError
from routing.exchange_types import check_arguments, is_exchange_type

TOPIC: Final = "topic"

RESERVED_PREFIX: Final = "amq."


@final
class Exchange:
    """One exchange of one virtual host."""

    def __init__(
        self,
        name: str,
        type_name: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Arguments,
    ) -> None:
        self.name = name
        self.type_name = type_name
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments
        # The policy that is in force for it.
        self.policy: Policy | None = None

    @property
    def alternate(self) -> str | None:
        """Where messages go that find no way from here: what is declared goes first."""
        alternate = self.arguments.table.get(ALTERNATE_EXCHANGE)
        if alternate is None and self.policy is not None:
            alternate = self.policy.definition.get(ALTERNATE_EXCHANGE)
        return alternate if isinstance(alternate, str) else None

    @property
    def is_delayed(self) -> bool:
        """Whether messages wait here for their time."""
        return self.type_name == DELAYED

    def check_same(self, declared: "Exchange", vhost_name: str) -> None:
        """Check that `declared` repeats what this exchange is.

        Raises:
            PreconditionFailed: it does not.
        """
        resource = exchange_resource(self.name, vhost_name)
        check_same_property("type", self.type_name, declared.type_name, resource)
        check_same_property("durable", self.durable, declared.durable, resource)
        check_same_property(
            "auto_delete", self.auto_delete, declared.auto_delete, resource
        )
        check_same_property("internal", self.internal, declared.internal, resource)
        check_same_argument(
            self.arguments, declared.arguments, ALTERNATE_EXCHANGE, resource
        )


def predeclared() -> list[Exchange]:
    """Make the exchanges that a virtual host is born with."""
    return [
        _standard("amq.direct", "direct", False),
        _standard("amq.fanout", "fanout", False),
        _standard("amq.topic", "topic", False),
        _standard("amq.headers", "headers", False),
        _standard("amq.match", "headers", False),
        _standard("amq.rabbitmq.trace", "topic", True),
    ]


def event_exchange() -> Exchange:
    """Make the exchange that events are published to."""
    return _standard("amq.rabbitmq.event", TOPIC, True)


def exchange_resource(name: str, vhost_name: str) -> str:
    """How texts call an exchange."""
    return f"exchange '{name}' in vhost '{vhost_name}'"


def no_exchange(name: str, vhost_name: str) -> NotFound:
    """The error for an exchange that is not there."""
    return NotFound(f"no {exchange_resource(name, vhost_name)}")


def check_not_default(name: str) -> None:
    """Check that an operation is not about the default exchange.

    Raises:
        AccessRefused: it is.
    """
    if not name:
        raise AccessRefused("operation not permitted on the default exchange")


def check_not_reserved(kind: str, name: str) -> None:
    """Check the name of a new queue or exchange.

    Raises:
        AccessRefused: the name is of those that the broker gives.
    """
    if name.startswith(RESERVED_PREFIX):
        raise AccessRefused(f"{kind} name '{name}' contains reserved prefix 'amq.*'")


def check_type(type_name: str) -> None:
    """Check the type of a new exchange.

    Raises:
        PreconditionFailed: there is no such type.
    """
    if not is_exchange_type(type_name):
        raise PreconditionFailed(f"unknown exchange type '{type_name}'")


def check_type_arguments(exchange: Exchange) -> None:
    """Check that the type of a new exchange can work with its arguments.

    Raises:
        PreconditionFailed: it cannot.
    """
    try:
        check_arguments(exchange.type_name, exchange.arguments.table)
    except RoutingError as error:
        raise PreconditionFailed(str(error)) from None


def _standard(name: str, type_name: str, internal: bool) -> Exchange:
    return Exchange(name, type_name, True, False, internal, Arguments({}, b""))
