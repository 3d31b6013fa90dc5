"""What one queue has to keep: its arguments, and the policies in force for it.

Made when the queue is made, and anew when a policy changes; nothing is looked up for a
message. Whoever acts on a rule has it from here.
"""

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from amqpd.broker.arguments import CONSUMER_TIMEOUT, EXPIRES
from amqpd.broker.policies.effective_policy import NO_POLICY, EffectivePolicy
from amqpd.broker.queues.limits import Limits, whole_number


@final
@mypyc_attr(acyclic=True)
class QueueRules:
    """The rules of one queue, at one time."""

    def __init__(
        self, arguments: dict[str, object], effective: EffectivePolicy = NO_POLICY
    ) -> None:
        self.effective = effective
        self._table = table = effective.queue_arguments(arguments)
        self.limits = Limits(table)
        # How long it may be unused; less than 1: for ever.
        self.expires_ms: i64 = whole_number(table, EXPIRES)
        # How long a consumer may keep a delivery that says nothing; 0: for ever.
        self.consumer_timeout_ms: i64 = max(whole_number(table, CONSUMER_TIMEOUT), 0)

    def has_effect_of(self, other: "QueueRules") -> bool:
        """Whether keeping the other rules of the same queue makes no difference."""
        return self._table == other._table


NO_RULES: Final = QueueRules({})
