"""The ends of a connection, from its name."""

import pytest

from amqpd.http.peer import local_facts, peer_facts


@pytest.mark.parametrize(
    ("name", "peer", "local"),
    [
        ("1.2.3.4:5 -> 6.7.8.9:10", ("1.2.3.4", 5), ("6.7.8.9", 10)),
        ("[::1]:5 -> [fe80::1]:10", ("::1", 5), ("fe80::1", 10)),
        ("unknown -> unknown", ("unknown", "unknown"), ("unknown", "unknown")),
    ],
)
def test_ends_are_told_apart(
    name: str, peer: tuple[str, object], local: tuple[str, object]
) -> None:
    assert peer_facts(name) == {"peer_host": peer[0], "peer_port": peer[1]}
    assert local_facts(name) == {"host": local[0], "port": local[1]}
