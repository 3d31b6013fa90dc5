"""Runtime parameters: values that are set, by virtual host, component and name.

    vhost  component        name       value
    "/"    policy           p          {"pattern": ..., "definition": ...}
    "/"    operator_policy  op         the same
    "/"    vhost-limits     limits     {"max-queues": 10}
    ""     user-limits      joe        {"max-channels": 2}
    ""     ""               anything   a global parameter: whatever its owner likes

All of them lie in one table of the catalogue. Here are those that are nothing but
values, and what all of them are called; policies and limits are objects elsewhere, and
`parameter_changes` keeps them, the values and the rows in step.
"""

from typing import Final, final

POLICY: Final = "policy"
OPERATOR_POLICY: Final = "operator_policy"
VHOST_LIMITS: Final = "vhost-limits"
USER_LIMITS: Final = "user-limits"
#: The component of global parameters.
GLOBAL: Final = ""
#: In the place of a virtual host, of what belongs to none.
NO_VHOST: Final = ""
#: The only name among a virtual host's limits.
LIMITS: Final = "limits"


@final
class Parameter:
    """One value and whose it is."""

    def __init__(self, vhost: str, component: str, name: str, value: object) -> None:
        self.vhost = vhost
        self.component = component
        self.name = name
        self.value = value


@final
class ParameterTable:
    """All values, as they were set."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str, str], Parameter] = {}

    def put(self, parameter: Parameter) -> None:
        """Add a value, or replace the one of that place."""
        key = (parameter.vhost, parameter.component, parameter.name)
        self._entries[key] = parameter

    def remove(self, vhost: str, component: str, name: str) -> None:
        """Forget a value, if it is there."""
        self._entries.pop((vhost, component, name), None)

    def get(self, vhost: str, component: str, name: str) -> Parameter | None:
        """Return the value of that place, if there is one."""
        return self._entries.get((vhost, component, name))

    def entries(self) -> list[Parameter]:
        """Return all values in an order of their own."""
        return [self._entries[key] for key in sorted(self._entries)]

    def of_vhost(self, vhost: str) -> list[Parameter]:
        """Return the values of a virtual host."""
        return [one for one in self.entries() if one.vhost == vhost]

    def global_parameters(self) -> list[Parameter]:
        """Return what is set for all virtual hosts together, by name."""
        return [one for one in self.of_vhost(NO_VHOST) if one.component == GLOBAL]
