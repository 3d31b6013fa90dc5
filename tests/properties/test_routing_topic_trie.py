"""The topic trie against a matcher that tries every way."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from routing.binding import Binding, Target
from routing.topic_trie import TopicTrie

patterns = st.lists(st.sampled_from([b"a", b"b", b"", b"*", b"#"]), max_size=6).map(
    b".".join
)
topics = st.lists(st.sampled_from([b"a", b"b", b"", b"*", b"#"]), max_size=6).map(
    b".".join
)


def words(key: bytes) -> list[bytes]:
    return key.split(b".") if key else []


def naive_match(pattern: list[bytes], topic: list[bytes]) -> bool:
    if not pattern:
        return not topic
    if pattern[0] == b"#":
        rests = range(len(topic) + 1)
        return any(naive_match(pattern[1:], topic[start:]) for start in rests)
    if not topic:
        return False
    return pattern[0] in (b"*", topic[0]) and naive_match(pattern[1:], topic[1:])


@given(
    st.lists(patterns, min_size=1, max_size=8),
    st.lists(topics, min_size=1, max_size=4),
    st.randoms(),
)
def test_the_trie_finds_what_the_naive_matcher_finds(
    bound: list[bytes], asked: list[bytes], random: Random
) -> None:
    trie = TopicTrie()
    entries = [
        (Binding("x", str(number), False, pattern, {}, b""), Target())
        for number, pattern in enumerate(bound)
    ]
    for binding, target in entries:
        trie.add(binding, target)
    random.shuffle(entries)
    while entries:
        for topic in asked:
            found: list[Target] = []
            trie.match(topic, found)
            expected = [
                target
                for binding, target in entries
                if naive_match(words(binding.key), words(topic))
            ]
            assert len(found) == len(expected)
            assert set(found) == set(expected)
        binding, _ = entries.pop()
        trie.remove(binding)
