"""The JSON of queues, kept until something about them changes.

    a queue   its state as it was said last, its text
    a block   the texts of queues that follow each other in a list, joined
    a list    the blocks of a virtual host, in the order of names

A tool that asks for ten thousand queues every second should not cost more than the
queues do, and from one second to the next most of them are as they were. So a list is
made of the blocks that nothing has changed in, and whether that is so takes little
time: what is compared is `QueueState`'s. A list is put together anew when queues have
come or gone, from the texts that there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from amqpd.broker.queues.queue import Queue
from amqpd.broker.queues.queue_state import QueueState, note_all
from amqpd.broker.vhosts.vhost import VirtualHost
from amqpd.http.pace import Pace, sorted_names

#: All texts of a block may have to be made at once, in a millisecond or two.
BLOCK_COUNT: Final = 64
#: So many more than there are may be kept before those that are gone are looked for.
SPARE: Final = 1000

Make = Callable[[Queue], bytes]


class _Kept:
    """What was said of a queue last."""

    __slots__ = ("block", "state", "text")

    def __init__(self) -> None:
        self.state = QueueState()
        self.text = b""
        # Where the text is part of, too.
        self.block: _Block | None = None


class _Block:
    """Queues that follow each other in a list."""

    __slots__ = ("_kept", "_queues", "_states", "text")

    def __init__(self, queues: list[Queue], kept: list[_Kept]) -> None:
        self._queues = queues
        self._kept = kept
        self._states = [one.state for one in kept]
        self.text = b""
        for one in kept:
            one.block = self

    def current(self, make: Make) -> bytes:
        """Return the texts of all its queues as they are now."""
        changed = note_all(self._states, self._queues)
        for index in changed:
            kept = self._kept[index]
            kept.text = make(self._queues[index])
            if kept.block is not None and kept.block is not self:
                # It is in a newer list, and will not be found changed there.
                kept.block.text = b""
        if changed or not self.text:
            self.text = b",".join(one.text for one in self._kept)
        return self.text


class _List:
    """The queues of a virtual host as they were when some came or went last."""

    def __init__(self, vhost: VirtualHost, version: int, blocks: list[_Block]) -> None:
        self._vhost = vhost
        self._version = version
        self.blocks = blocks

    def is_of(self, vhost: VirtualHost) -> bool:
        """Whether these are the queues that there are."""
        is_same = self._vhost is vhost
        return is_same and self._version == vhost.topology.queues_version


@final
class QueueTexts:
    """The texts of all queues that anybody has asked for."""

    def __init__(self) -> None:
        self._kept: dict[Queue, _Kept] = {}
        self._lists: dict[str, _List] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def text_of(self, queue: Queue, make: Make) -> bytes:
        """Return the text of one queue, made anew if it has changed."""
        kept = self._kept_of(queue)
        if kept.state.note(queue):
            kept.text = make(queue)
            if kept.block is not None:
                kept.block.text = b""
        return kept.text

    async def list_of(self, vhost: VirtualHost, make: Make, pace: Pace) -> list[bytes]:
        """Return the texts of a virtual host's queues by name, some at a time."""
        kept = self._lists.get(vhost.name)
        if kept is None or not kept.is_of(vhost):
            kept = await self._new_list(vhost, pace)
            self._lists[vhost.name] = kept
        texts = []
        for block in kept.blocks:
            texts.append(block.current(make))
            await pace.step()
        return texts

    def forget_gone(self, vhosts: dict[str, VirtualHost]) -> None:
        """Forget queues that are gone, if those may be many."""
        for name in [name for name in self._lists if name not in vhosts]:
            del self._lists[name]
        count = sum(len(vhost.queues) for vhost in vhosts.values())
        if len(self._kept) > count + SPARE:
            self._kept = {
                queue: kept
                for queue, kept in self._kept.items()
                if not queue.is_deleted
            }

    def _kept_of(self, queue: Queue) -> _Kept:
        kept = self._kept.get(queue)
        if kept is None:
            kept = self._kept[queue] = _Kept()
        return kept

    async def _new_list(self, vhost: VirtualHost, pace: Pace) -> _List:
        # First: what comes or goes meanwhile is missed, and noticed the next time.
        version = int(vhost.topology.queues_version)
        queues: list[Queue] = []
        blocks: list[_Block] = []
        for name in await sorted_names(vhost.queues, pace):
            queue = vhost.queues.get(name)
            if queue is None:
                continue
            queues.append(queue)
            if len(queues) == BLOCK_COUNT:
                blocks.append(self._new_block(queues))
                queues = []
                await pace.step()
        if queues:
            blocks.append(self._new_block(queues))
        return _List(vhost, version, blocks)

    def _new_block(self, queues: list[Queue]) -> _Block:
        return _Block(queues, [self._kept_of(queue) for queue in queues])
