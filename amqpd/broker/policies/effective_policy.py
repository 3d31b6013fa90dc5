"""What holds for an object: a policy, an operator's policy and its own arguments.

    policy      {max-length: 10, overflow: reject-publish}
    operator    {max-length: 5, expires: 60000}
    together    {max-length: 5, overflow: reject-publish, expires: 60000}

Of two numbers the lesser holds, whoever says it; a negative delivery limit is none, so
any other is less. Of anything else the operator's holds. With the arguments of a queue
the numbers are dealt with alike; of anything else the argument holds before the policy,
and the operator's before both, as RabbitMQ documents it.

Policies reach a queue as the arguments that they are named after, so whoever acts on
arguments acts on policies.
"""

from typing import Final, final

from amqpd.broker.policies.policy import Policy
from amqpd.broker.policies.policy_keys import REMOVED_KEYS

_DELIVERY_LIMIT: Final = "delivery-limit"
#: A number that is a name: there is no lesser version.
_QUEUE_VERSION: Final = "queue-version"
#: What they set for an exchange, under the name it has among arguments.
_OF_EXCHANGES: Final = frozenset({"alternate-exchange"})
_NOTHING: Final[dict[str, object]] = {}


@final
class EffectivePolicy:
    """The policies that are in force for one object; there need not be any."""

    __slots__ = ("definition", "operator_policy", "policy")

    def __init__(self, policy: Policy | None, operator_policy: Policy | None) -> None:
        self.policy = policy
        self.operator_policy = operator_policy
        # Of both together; this is RabbitMQ's effective_policy_definition.
        self.definition = merge(_definition(policy), _definition(operator_policy))

    @property
    def policy_name(self) -> str | None:
        """The name of the policy, if there is one."""
        return None if self.policy is None else self.policy.name

    @property
    def operator_policy_name(self) -> str | None:
        """The name of the operator's policy, if there is one."""
        return None if self.operator_policy is None else self.operator_policy.name

    def queue_arguments(self, table: dict[str, object]) -> dict[str, object]:
        """Return the arguments of a queue together with what policies say."""
        effective = dict(table)
        for key, value in self.definition.items():
            if key in _OF_EXCHANGES or key in REMOVED_KEYS:
                continue
            name = "x-" + key
            if name not in table:
                effective[name] = value
            elif _is_number(value) and _is_number(table[name]):
                effective[name] = _lesser(key, table[name], value)
            elif key in _definition(self.operator_policy):
                effective[name] = value
        return effective


def merge(policy: dict[str, object], operator: dict[str, object]) -> dict[str, object]:
    """Return what two definitions are together."""
    merged = dict(policy)
    for key, bound in operator.items():
        if key in policy and _is_number(policy[key]) and _is_number(bound):
            merged[key] = _lesser(key, policy[key], bound)
        else:
            merged[key] = bound
    return merged


def _definition(policy: Policy | None) -> dict[str, object]:
    return _NOTHING if policy is None else policy.definition


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _lesser(key: str, first: object, second: object) -> object:
    assert isinstance(first, int) and isinstance(second, int)
    if key == _QUEUE_VERSION:
        return second
    if key == _DELIVERY_LIMIT and (first < 0 or second < 0):
        return max(first, second)
    return min(first, second)


NO_POLICY: Final = EffectivePolicy(None, None)
