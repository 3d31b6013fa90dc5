"""The policies of one virtual host, and which of them is in force for what.

For a queue that is at most one policy and one operator's policy, for an exchange a
policy: of those that are for it, the one with the highest priority. Of equal ones
RabbitMQ takes any; here it is the first by name.
"""

from typing import final

from amqpd.broker.policies.effective_policy import NO_POLICY, EffectivePolicy
from amqpd.broker.policies.policy import EXCHANGES, Policy


@final
class PolicyTable:
    """All policies of a virtual host."""

    def __init__(self) -> None:
        self._policies: dict[str, Policy] = {}
        self._operator_policies: dict[str, Policy] = {}
        # In the order in which they are asked.
        self._line: list[Policy] = []
        self._operator_line: list[Policy] = []
        # What two of them are together, by both.
        self._effective: dict[tuple[Policy | None, Policy | None], EffectivePolicy] = {}

    def put(self, policy: Policy) -> None:
        """Add a policy, or replace the one of that name."""
        self._named(policy.is_operator)[policy.name] = policy
        self._sort()

    def remove(self, name: str, is_operator: bool) -> None:
        """Forget a policy, if it is there."""
        self._named(is_operator).pop(name, None)
        self._sort()

    def get(self, name: str, is_operator: bool) -> Policy | None:
        """Return the policy of that name, if there is one."""
        return self._named(is_operator).get(name)

    def entries(self, is_operator: bool) -> list[Policy]:
        """Return all policies, or all operator's policies, by name."""
        named = self._named(is_operator)
        return [named[name] for name in sorted(named)]

    def for_queue(self, queue_type: str, name: str) -> EffectivePolicy:
        """Return what is in force for a queue of that type and name.

        It is the same object as long as the same policies are.
        """
        policy = _first(self._line, queue_type, name)
        operator_policy = _first(self._operator_line, queue_type, name)
        if policy is None and operator_policy is None:
            return NO_POLICY
        pair = (policy, operator_policy)
        effective = self._effective.get(pair)
        if effective is None:
            effective = EffectivePolicy(policy, operator_policy)
            self._effective[pair] = effective
        return effective

    def for_exchange(self, name: str) -> Policy | None:
        """Return the policy that is in force for an exchange."""
        return _first(self._line, EXCHANGES, name)

    def _named(self, is_operator: bool) -> dict[str, Policy]:
        return self._operator_policies if is_operator else self._policies

    def _is_there(self, policy: Policy | None) -> bool:
        if policy is None:
            return True
        return self._named(policy.is_operator).get(policy.name) is policy

    def _sort(self) -> None:
        self._effective = {
            pair: effective
            for pair, effective in self._effective.items()
            if self._is_there(pair[0]) and self._is_there(pair[1])
        }
        self._line = sorted(self._policies.values(), key=_order)
        self._operator_line = sorted(self._operator_policies.values(), key=_order)


def _first(line: list[Policy], kind: str, name: str) -> Policy | None:
    for policy in line:
        if policy.is_for(kind, name):
            return policy
    return None


def _order(policy: Policy) -> tuple[float, str]:
    return -policy.priority, policy.name
