"""Which patterns match which topics."""

import pytest

from routing.binding import Binding, Target
from routing.topic_trie import TopicTrie


def bound(pattern: bytes, name: str = "q") -> Binding:
    return Binding("x", name, False, pattern, {}, b"")


def matches(pattern: bytes, topic: bytes) -> bool:
    trie, target = TopicTrie(), Target()
    trie.add(bound(pattern), target)
    found: list[Target] = []
    trie.match(topic, found)
    return found == [target]


@pytest.mark.parametrize(
    ("pattern", "topic"),
    [
        (b"a.b", b"a.b"),
        (b"a.*", b"a.b"),
        (b"*.b", b"a.b"),
        (b"*", b"a"),
        (b"*.*", b"."),
        (b"a.*", b"a."),
        (b"#", b""),
        (b"#", b"a"),
        (b"#", b"a.b.c"),
        (b"a.#", b"a"),
        (b"a.#", b"a.b.c"),
        (b"#.c", b"c"),
        (b"#.c", b"a.b.c"),
        (b"a.#.c", b"a.c"),
        (b"a.#.c", b"a.b.b.c"),
        (b"#.#", b""),
        (b"#.b.#", b"a.b.b.a"),
        (b"*.#", b"a"),
        (b"#.*", b"a"),
        (b"", b""),
        (b"a.*", b"a.*"),
        (b"a.#", b"a.#"),
    ],
)
def test_the_pattern_matches(pattern: bytes, topic: bytes) -> None:
    assert matches(pattern, topic)


@pytest.mark.parametrize(
    ("pattern", "topic"),
    [
        (b"a.b", b"a"),
        (b"a.b", b"a.b.c"),
        (b"a.b", b"a.B"),
        (b"a.*", b"a"),
        (b"a.*", b"a.b.c"),
        (b"*", b""),
        (b"*", b"a.b"),
        (b"#.c", b"c.a"),
        (b"a.#.c", b"a"),
        (b"*.#", b""),
        (b"#.*", b""),
        (b"", b"a"),
        (b"a", b""),
        (b"a*", b"ab"),
        (b"b", b"*"),
        (b"b", b"#"),
    ],
)
def test_the_pattern_does_not_match(pattern: bytes, topic: bytes) -> None:
    assert not matches(pattern, topic)


def test_removing_one_pattern_leaves_those_that_share_its_words() -> None:
    trie = TopicTrie()
    patterns = [b"a", b"a.b", b"a.b.*", b"a.b.#", b"a.#.b", b"#", b""]
    targets = {pattern: Target() for pattern in patterns}
    for pattern, target in targets.items():
        trie.add(bound(pattern), target)
    for pattern in patterns:
        trie.remove(bound(pattern))
        del targets[pattern]
        for topic in (b"a", b"a.b", b"a.b.c", b""):
            found: list[Target] = []
            trie.match(topic, found)
            expected = [t for p, t in targets.items() if matches(p, topic)]
            assert set(found) == set(expected)


def test_two_bindings_of_one_pattern_go_one_by_one() -> None:
    trie, target = TopicTrie(), Target()
    for name in ("q", "r"):
        trie.add(bound(b"a.#", name), target)
    trie.remove(bound(b"a.#", "q"))
    found: list[Target] = []
    trie.match(b"a.b", found)
    assert found == [target]


def test_a_pattern_with_many_wildcards_is_matched_without_trying_every_way() -> None:
    trie, target = TopicTrie(), Target()
    trie.add(bound(b".".join([b"#.a"] * 40)), target)
    found: list[Target] = []
    trie.match(b".".join([b"a"] * 120), found)
    trie.match(b".".join([b"a"] * 120 + [b"b"]), found)
    assert found == [target]


def test_patterns_as_deep_as_a_key_allows_are_matched() -> None:
    # Celery's delayed delivery binds patterns of this kind, 28 words deep.
    pattern = b".".join([b"*"] * 27 + [b"1", b"#"])
    assert matches(pattern, b".".join([b"0"] * 27 + [b"1", b"celery"]))
    assert not matches(pattern, b".".join([b"0"] * 28 + [b"celery"]))
