"""What is said of a queue again and again, compared with what was said of it last.

    queue > note > whether anything of it has changed

Tools list ten thousand queues every second, most of them as they were a second before.
To find that out takes a fraction of a microsecond where this is compiled; it costs the
queues nothing, since they keep no account of what changes.

What never changes (a name, arguments) is not looked at. What is said, and in which
words, is the caller's.
"""

from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.policies.effective_policy import NO_POLICY, EffectivePolicy
from amqpd.broker.queues.priority_queue import PriorityQueue
from amqpd.broker.queues.queue import Queue

_NEVER: Final[i64] = -1


@final
class QueueState:
    """The state of one queue when it was looked at last."""

    __slots__ = (
        "consumer_count",
        "exclusive_tag",
        "held_count",
        "held_size",
        "on_disk_count",
        "policy",
        "ready_count",
        "ready_size",
        "single_active_tag",
        "unacked_count",
    )

    def __init__(self) -> None:
        # No queue has ever been like that.
        self.ready_count: i64 = _NEVER
        self.unacked_count: i64 = 0
        # Of those that are ready: how many are not in memory, and how large all are.
        self.on_disk_count: i64 = 0
        self.ready_size: i64 = 0
        # Dead letters that wait here for room elsewhere, and octets of their bodies.
        self.held_count: i64 = 0
        self.held_size: i64 = 0
        self.consumer_count: i64 = 0
        self.exclusive_tag = ""
        self.single_active_tag = ""
        self.policy: EffectivePolicy = NO_POLICY

    def note(self, queue: Queue) -> bool:
        """Take over how the queue is; return whether it was otherwise before."""
        ready: i64 = 0
        on_disk: i64 = 0
        size: i64 = 0
        if isinstance(queue, PriorityQueue):
            for part in queue.parts():
                backlog = part.ready
                ready += backlog.count
                on_disk += backlog.cold_count
                size += backlog.size
        else:
            backlog = queue.ready
            ready = backlog.count
            on_disk = backlog.cold_count
            size = backlog.size
        is_changed = (
            ready != self.ready_count
            or on_disk != self.on_disk_count
            or size != self.ready_size
            or queue.unacked_count != self.unacked_count
        )
        self.ready_count = ready
        self.on_disk_count = on_disk
        self.ready_size = size
        self.unacked_count = queue.unacked_count
        keeper = queue.keeper
        policy = NO_POLICY
        if keeper is not None:
            policy = keeper.rules.effective
            count, size = keeper.held_count, keeper.held_size
            if count != self.held_count or size != self.held_size:
                is_changed = True
                self.held_count = count
                self.held_size = size
        if policy is not self.policy:
            is_changed = True
            self.policy = policy
        if not queue.consumers and not self.consumer_count:
            return is_changed
        return self._note_consumers(queue) or is_changed

    def _note_consumers(self, queue: Queue) -> bool:
        count: i64 = len(queue.consumers)
        exclusive = queue.consumers[0].tag if queue.has_exclusive_consumer else ""
        active = queue.single_active_consumer_tag
        is_changed = (
            count != self.consumer_count
            or exclusive != self.exclusive_tag
            or active != self.single_active_tag
        )
        self.consumer_count = count
        self.exclusive_tag = exclusive
        self.single_active_tag = active
        return is_changed


def note_all(states: list[QueueState], queues: list[Queue]) -> list[int]:
    """Take over how each queue is; return the places of those that have changed."""
    changed: list[int] = []
    for index, state in enumerate(states):
        if state.note(queues[index]):
            changed.append(index)
    return changed
