"""The router against a naive walk, while the topology changes at random.

The second subject is how long a resolution holds: never longer than its answer is
right, and never shorter because of an exchange that it did not cross.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from routing.binding import Binding
from routing.errors import UnknownDestination, UnknownSource
from routing.hashing import hash_octets, mix
from routing.resolution import Resolution
from routing.router import Router
from tests.properties.test_routing_headers import naive_match as headers_match
from tests.properties.test_routing_topic_trie import naive_match as topic_match
from tests.properties.test_routing_topic_trie import words
from tests.support.routing import Sent

exchanges = st.sampled_from(["A", "B", "C", "D"])
alternates = st.sampled_from([None, "", "A", "B", "C", "D"])
queues = st.sampled_from(["a", "a.b", "q"])
keys = st.sampled_from([b"a", b"a.b", b"q", b"*", b"a.#", b"#"])
headers_of_messages = st.sampled_from([None, {"h": 1}, {"h": "1"}])
arguments_of_bindings: st.SearchStrategy[dict[str, object]] = st.sampled_from(
    [{}, {"h": 1}, {"x-match": "any", "h": "1"}]
)
bindings = st.builds(
    lambda source, destination, key, arguments: Binding(
        source,
        destination,
        destination.isupper(),
        key,
        arguments,
        repr(arguments).encode(),
    ),
    exchanges,
    st.one_of(queues, exchanges),
    keys,
    arguments_of_bindings,
)


class Question:
    """A resolution that was asked for, and what it crossed then."""

    def __init__(
        self,
        exchange: str,
        key: bytes,
        headers: dict[str, object] | None,
        resolution: Resolution[int],
        crossed: set[str],
    ) -> None:
        self.exchange = exchange
        self.key = key
        self.headers = headers
        self.resolution = resolution
        self.crossed = crossed
        self.was_touched = False


class RouterMachine(RuleBasedStateMachine):
    """Keeps the same topology as plain lists and walks it the slow way."""

    def __init__(self) -> None:
        super().__init__()
        self.router = Router[int]()
        self.types: dict[str, str] = {}
        self.alternates: dict[str, str | None] = {}
        self.queues: dict[str, int] = {}
        self.bound: list[Binding] = []
        self.questions: list[Question] = []
        self.made = 0

    # -- the model

    def touch(self, *names: str) -> None:
        """Note that the answers of these exchanges may be different now."""
        for question in self.questions:
            if not question.crossed.isdisjoint(names):
                question.was_touched = True

    def matches(self, binding: Binding, key: bytes, headers: dict[str, object]) -> bool:
        exchange_type = self.types[binding.source]
        if exchange_type == "direct":
            return binding.key == key
        if exchange_type == "topic":
            return topic_match(words(binding.key), words(key))
        if exchange_type == "headers":
            return headers_match(binding.arguments, headers)
        return True

    def walk(
        self, start: str, key: bytes, headers: dict[str, object]
    ) -> tuple[set[int], set[str]]:
        """Return the queues found and the exchanges crossed."""
        found: set[int] = set()
        crossed: set[str] = set()
        waiting = [start]
        while waiting:
            exchange = waiting.pop()
            if exchange in crossed:
                continue
            crossed.add(exchange)
            if exchange == "":
                if key.decode() in self.queues:
                    found.add(self.queues[key.decode()])
                continue
            hits = [
                binding
                for binding in self.bound
                if binding.source == exchange and self.matches(binding, key, headers)
            ]
            if hits and self.types[exchange] == "x-modulus-hash":
                hits.sort(
                    key=lambda b: (b.key, b.to_exchange, b.destination, b.raw_arguments)
                )
                hits = [hits[mix(hash_octets(key)) % len(hits)]]
            waiting += [hit.destination for hit in hits if hit.to_exchange]
            found |= {self.queues[h.destination] for h in hits if not h.to_exchange}
            alternate = self.alternates[exchange]
            if not hits and alternate in ("", *self.types):
                waiting.append(alternate)
        return found, crossed

    def remove_bound(self, name: str, is_exchange: bool) -> set[Binding]:
        gone = {
            binding
            for binding in self.bound
            if (binding.destination == name and binding.to_exchange == is_exchange)
            or (is_exchange and binding.source == name)
        }
        self.bound = [binding for binding in self.bound if binding not in gone]
        self.touch(*(binding.source for binding in gone))
        return gone

    # -- changes

    @rule(
        name=exchanges,
        type_name=st.sampled_from(
            ["direct", "fanout", "topic", "headers", "x-modulus-hash"]
        ),
        alternate=alternates,
    )
    def add_exchange(self, name: str, type_name: str, alternate: str | None) -> None:
        if name in self.types:
            return
        self.router.add_exchange(name, type_name, alternate, {})
        self.types[name] = type_name
        self.alternates[name] = alternate
        self.touch(*(user for user, other in self.alternates.items() if other == name))

    @rule(name=exchanges)
    def remove_exchange(self, name: str) -> None:
        removed = self.router.remove_exchange(name)
        assert len(removed) == len(set(removed))
        assert set(removed) == self.remove_bound(name, True)
        self.touch(name)
        self.types.pop(name, None)
        self.alternates.pop(name, None)

    @rule(name=exchanges, alternate=alternates)
    def set_alternate(self, name: str, alternate: str | None) -> None:
        if name in self.types:
            self.router.set_alternate(name, alternate)
            self.alternates[name] = alternate
            self.touch(name)

    @rule(name=queues)
    def add_queue(self, name: str) -> None:
        self.made += 1
        self.router.add_destination(name, self.made)
        self.queues[name] = self.made
        self.touch("", *(b.source for b in self.bound if b.destination == name))

    @rule(name=queues)
    def remove_queue(self, name: str) -> None:
        assert set(self.router.remove_destination(name)) == self.remove_bound(
            name, False
        )
        if self.queues.pop(name, None) is not None:
            self.touch("")

    @rule(binding=bindings)
    def bind(self, binding: Binding) -> None:
        places = self.types if binding.to_exchange else self.queues
        try:
            is_new = self.router.bind(binding)
        except UnknownSource:
            assert binding.source not in self.types
        except UnknownDestination:
            assert binding.destination not in places
        else:
            assert binding.source in self.types
            assert binding.destination in places
            assert is_new == (binding not in self.bound)
            if is_new:
                self.bound.append(binding)
                self.touch(binding.source)

    @rule(data=st.data(), other=bindings)
    def unbind(self, data: st.DataObject, other: Binding) -> None:
        binding = data.draw(st.sampled_from([other, *self.bound]))
        was_there = self.router.unbind(binding)
        assert was_there == (binding in self.bound)
        if was_there:
            self.bound.remove(binding)
            self.touch(binding.source)

    # -- questions

    @rule(exchange=exchanges, key=keys, headers=headers_of_messages)
    def ask(self, exchange: str, key: bytes, headers: dict[str, object] | None) -> None:
        if exchange not in self.types:
            return
        resolution = self.router.resolve(exchange, Sent(key, headers=headers))
        found, crossed = self.walk(exchange, key, headers or {})
        assert len(resolution.destinations) == len(found)
        assert set(resolution.destinations) == found
        asks = any(self.types.get(name) == "headers" for name in crossed)
        assert resolution.asks_message == asks
        self.questions.append(Question(exchange, key, headers, resolution, crossed))

    @invariant()
    def a_current_resolution_is_right_and_an_untouched_one_is_current(self) -> None:
        kept = []
        for question in self.questions:
            if not question.resolution.is_current():
                assert question.was_touched, "an unrelated change ended it"
                continue
            assert question.exchange in self.types
            found, _ = self.walk(
                question.exchange, question.key, question.headers or {}
            )
            assert set(question.resolution.destinations) == found
            kept.append(question)
        self.questions = kept

    @invariant()
    def the_bindings_are_the_same(self) -> None:
        assert set(self.router.bindings()) == set(self.bound)


TestRouter = RouterMachine.TestCase
TestRouter.settings = settings(deadline=None, stateful_step_count=60)
