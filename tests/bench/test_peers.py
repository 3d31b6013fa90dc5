"""How peers are named, and which processes they are made of."""

from __future__ import annotations

import os

import pytest

from tests.bench.peers import named, pids_of


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        (
            "lavinmq=amqp://guest@127.0.0.1:5674/",
            "lavinmq",
            "amqp://guest@127.0.0.1:5674/",
        ),
        ("amqp://guest@127.0.0.1:5674/", "", "amqp://guest@127.0.0.1:5674/"),
        ("amqp://h:5674/?heartbeat=0", "", "amqp://h:5674/?heartbeat=0"),
        ("lavinmq=4711", "lavinmq", "4711"),
        ("4711", "", "4711"),
    ],
)
def test_a_name_is_what_stands_before_the_first_equals_sign(
    text: str, name: str, value: str
) -> None:
    assert named(text) == (name, value)


def test_a_process_belongs_to_the_peer_that_it_is_said_for() -> None:
    own = os.getpid()
    assert pids_of("one", [f"one={own}", f"two={os.getppid()}"])[0] == own
    assert pids_of("three", [f"one={own}"]) == ()


def test_a_process_said_twice_counts_once() -> None:
    own = str(os.getpid())
    assert len(pids_of("one", [own, f"one={own}"])) == len(pids_of("one", [own]))
