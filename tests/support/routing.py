"""Exchange tables by the names of what they lead to, and messages to route."""

from routing.binding import Binding, BindingTable, Target
from routing.routable import Routable


class Sent(Routable):
    """A message that was sent with these keys, headers and properties."""

    def __init__(
        self,
        *keys: bytes,
        headers: dict[str, object] | None = None,
        properties: dict[str, bytes] | None = None,
    ) -> None:
        super().__init__(list(keys))
        self.is_message = True
        self.table = headers or {}
        self.properties = properties or {}

    def headers(self) -> dict[str, object]:
        return self.table

    def property_text(self, name: str) -> bytes | None:
        return self.properties.get(name)


class NamedTable:
    """A table under test; every name is one target."""

    def __init__(self, table: BindingTable) -> None:
        self.table = table
        self.targets: dict[str, Target] = {}

    def add(
        self,
        name: str,
        key: bytes = b"",
        arguments: dict[str, object] | None = None,
        to_exchange: bool = False,
    ) -> Binding:
        """Bind the name; equal arguments make equal bindings."""
        arguments = arguments or {}
        raw = repr(arguments).encode() if arguments else b""
        binding = Binding("x", name, to_exchange, key, arguments, raw)
        self.table.add(binding, self.targets.setdefault(name, Target()))
        return binding

    def match(
        self, *keys: bytes, headers: dict[str, object] | None = None
    ) -> list[str]:
        """Return the names of what matches, sorted, as often as it was found."""
        return self.route(Sent(*keys, headers=headers))

    def route(self, routable: Routable) -> list[str]:
        """Return the names of where it goes, sorted, as often as they were found."""
        found: list[Target] = []
        self.table.match(routable, found)
        names = {id(target): name for name, target in self.targets.items()}
        return sorted(names[id(target)] for target in found)
