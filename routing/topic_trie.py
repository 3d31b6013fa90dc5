"""Which patterns match a topic: `*` stands for one word, `#` for any number of them.

Patterns that begin alike share nodes, one level a word:

    stock.*.nyse      root +- stock +- * -- nyse
    stock.#                |        +- #
    #.nyse                 +- # -- nyse

A topic is read word by word with the set of nodes where a pattern can have got to. A
word leads from a node to the child of that name and to `*`; a `#` is entered as soon
as the node before it (it may stand for nothing) and stays in the set (it may stand
for more). So a match costs at most the words times the nodes reached: several `#` in
a pattern cannot make it try every way to share the words among them.

An empty topic or pattern has no words at all, as in RabbitMQ: `#` matches it and `*`
does not. Words between two dots may be empty, and `*` matches those.
"""

from typing import Final, final

from mypy_extensions import i64

from routing.binding import Binding, Target

_ONE_WORD: Final = b"*"
_ANY_WORDS: Final = b"#"


@final
class _Node:
    """A place in the trie; the bindings whose pattern ends here."""

    __slots__ = ("any_words", "children", "entered_in", "is_any_words", "targets")

    def __init__(self, word: bytes) -> None:
        self.is_any_words = word == _ANY_WORDS
        self.children: dict[bytes, _Node] = {}
        self.any_words: _Node | None = None  # the child `#`
        self.targets: dict[Binding, Target] = {}
        self.entered_in: i64 = 0  # number of the step that put it into the set


@final
class TopicTrie:
    """Bindings by the words of their keys."""

    def __init__(self) -> None:
        self._root = _Node(b"")
        self._step: i64 = 0

    def add(self, binding: Binding, target: Target) -> None:
        """Put a binding in under its key."""
        node = self._root
        for word in _words(binding.key):
            child = node.children.get(word)
            if child is None:
                child = node.children[word] = _Node(word)
                if child.is_any_words:
                    node.any_words = child
            node = child
        node.targets[binding] = target

    def remove(self, binding: Binding) -> None:
        """Take out a binding that is in, and the nodes nobody needs any more."""
        words = _words(binding.key)
        path = [self._root]
        for word in words:
            path.append(path[-1].children[word])
        del path[-1].targets[binding]
        while words:
            node = path.pop()
            if node.targets or node.children:
                break
            del path[-1].children[words.pop()]
            if node.is_any_words:
                path[-1].any_words = None

    def match(self, topic: bytes, found: list[Target]) -> None:
        """Append the targets of all patterns that match the topic."""
        reached: list[_Node] = []
        self._step += 1
        self._enter(self._root, reached)
        for word in _words(topic):
            before = reached
            reached = []
            self._step += 1
            for node in before:
                if node.is_any_words:
                    self._enter(node, reached)
                self._enter(node.children.get(_ONE_WORD), reached)
                self._enter(node.children.get(word), reached)
        for node in reached:
            found.extend(node.targets.values())

    def _enter(self, node: _Node | None, reached: list[_Node]) -> None:
        """Add a node to the set, and the `#` behind it, unless they are in."""
        while node is not None and node.entered_in != self._step:
            node.entered_in = self._step
            reached.append(node)
            node = node.any_words


def _words(key: bytes) -> list[bytes]:
    return key.split(b".") if key else []
