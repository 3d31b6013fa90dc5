"""Delayed messages: an exchange of any other type, and a place where messages wait.

    message with a delay  >  the waiting room, and nowhere else
    any other             >  what the type in `x-delayed-type` says

Who runs the waiting room (`Router.set_waiting_room`) sends a message on when its delay
is over, through the same exchange: it has no delay then. Without a waiting room nothing
waits. What a delay is, the message knows.
"""

from typing import Final, final

from routing.binding import Binding, BindingTable, Target
from routing.errors import ArgumentsInvalid
from routing.routable import Routable

DELAYED: Final = "x-delayed-message"
DELAYED_TYPE_ARGUMENT: Final = "x-delayed-type"


@final
class DelayedTable(BindingTable):
    """The bindings of the type that routes, and the waiting room."""

    def __init__(self, arguments: dict[str, object], inner: BindingTable) -> None:
        super().__init__(arguments)
        # Every message may have a delay.
        self.asks_message = True
        self.waiting_room: Target | None = None
        self.inner = inner

    def add(self, binding: Binding, target: Target) -> None:
        self.inner.add(binding, target)

    def remove(self, binding: Binding) -> None:
        self.inner.remove(binding)

    def match(self, routable: Routable, found: list[Target]) -> None:
        if (
            self.waiting_room is not None
            and routable.is_message
            and routable.delay_ms() > 0
        ):
            found.append(self.waiting_room)
        else:
            self.inner.match(routable, found)


def delayed_type(arguments: dict[str, object]) -> str:
    """Return the name of the type that routes (RabbitMQ's texts).

    Raises:
        ArgumentsInvalid: none is named, or one that cannot be.
    """
    name = arguments.get(DELAYED_TYPE_ARGUMENT)
    if not isinstance(name, str):
        raise ArgumentsInvalid(
            f"Invalid argument, '{DELAYED_TYPE_ARGUMENT}' must be an existing "
            "exchange type"
        )
    if name == DELAYED:
        raise ArgumentsInvalid(
            f"Invalid argument, '{DELAYED}' can't be used for '{DELAYED_TYPE_ARGUMENT}'"
        )
    return name
