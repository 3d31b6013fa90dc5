"""Random exchanges: every message takes one binding, whichever.

`x-random` draws among all its bindings, so a queue that is bound twice gets twice as
much. `x-local-random` of RabbitMQ 4 draws among the queues on the publisher's node: on
a single machine all of them are. It takes queues only, bound without a key; of any
type, while RabbitMQ wants classic ones, since the others have their nodes elsewhere.
"""

from typing import Final, final

from mypy_extensions import i64

from routing.binding import Binding, BindingTable, Target
from routing.dice import Dice
from routing.errors import BindingInvalid
from routing.routable import Routable

RANDOM: Final = "x-random"
LOCAL_RANDOM: Final = "x-local-random"


@final
class RandomTable(BindingTable):
    """All bindings in a row, and where in it each of them is."""

    def __init__(self, arguments: dict[str, object], dice: Dice, local: bool) -> None:
        super().__init__(arguments)
        self.asks_message = True
        self._dice = dice
        self._is_local = local
        self._bindings: list[Binding] = []
        self._targets: list[Target] = []
        self._places: dict[Binding, int] = {}

    def add(self, binding: Binding, target: Target) -> None:
        if self._is_local:
            _check_local(binding)
        self._places[binding] = len(self._bindings)
        self._bindings.append(binding)
        self._targets.append(target)

    def remove(self, binding: Binding) -> None:
        # The last one takes its place: the order does not matter to a draw.
        place = self._places.pop(binding)
        last_binding = self._bindings.pop()
        last_target = self._targets.pop()
        if last_binding != binding:
            self._bindings[place] = last_binding
            self._targets[place] = last_target
            self._places[last_binding] = place

    def match(self, routable: Routable, found: list[Target]) -> None:
        count = i64(len(self._targets))
        if count:
            found.append(self._targets[self._dice.draw(count)])


def _check_local(binding: Binding) -> None:
    """Check what x-local-random asks of a binding; the texts are RabbitMQ's."""
    if binding.key:
        key = binding.key.decode("utf-8", "replace")
        raise BindingInvalid(f"Non empty binding '{key}' key not permitted")
    if binding.to_exchange:
        raise BindingInvalid("Destination not found")
