"""Topic exchange: the binding key is a pattern of words; `topic_trie` has the idea."""

from typing import final

from routing.binding import Binding, BindingTable, Target
from routing.routable import Routable
from routing.topic_trie import TopicTrie


@final
class TopicTable(BindingTable):
    """All patterns in one trie."""

    def __init__(self, arguments: dict[str, object]) -> None:
        super().__init__(arguments)
        self._trie = TopicTrie()

    def add(self, binding: Binding, target: Target) -> None:
        self._trie.add(binding, target)

    def remove(self, binding: Binding) -> None:
        self._trie.remove(binding)

    def match(self, routable: Routable, found: list[Target]) -> None:
        for key in routable.keys:
            self._trie.match(key, found)
