"""Exchange tables by the names of what they lead to."""

from routing.binding import Binding, BindingTable, Target


class NamedTable:
    """A table under test; every name is one target."""

    def __init__(self, table: BindingTable) -> None:
        self.table = table
        self.targets: dict[str, Target] = {}

    def add(
        self, name: str, key: bytes = b"", arguments: dict[str, object] | None = None
    ) -> Binding:
        """Bind the name; equal arguments make equal bindings."""
        arguments = arguments or {}
        raw = repr(arguments).encode() if arguments else b""
        binding = Binding("x", name, False, key, arguments, raw)
        self.table.add(binding, self.targets.setdefault(name, Target()))
        return binding

    def match(
        self, *keys: bytes, headers: dict[str, object] | None = None
    ) -> list[str]:
        """Return the names of what matches, sorted, as often as it was found."""
        found: list[Target] = []
        self.table.match(list(keys), headers or {}, found)
        names = {id(target): name for name, target in self.targets.items()}
        return sorted(names[id(target)] for target in found)
