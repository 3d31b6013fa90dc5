"""Options: URLs as clients write them, and nothing that would hang or mean nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from amqpd.bench.errors import OptionsInvalid
from amqpd.bench.options import Options, Target

GUEST = ("guest", "guest")
ASKED = Options(Target.from_url("amqp://localhost"))


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("amqp://", Target("localhost", 5672, *GUEST, "/")),
        ("amqp://h", Target("h", 5672, *GUEST, "/")),
        ("amqp://h/", Target("h", 5672, *GUEST, "/")),
        ("amqp://h:1/a%2Fb", Target("h", 1, *GUEST, "a/b")),
        ("amqp://u%40x:p%3A@h", Target("h", 5672, "u@x", "p:", "/")),
        ("amqp://[::1]:7", Target("::1", 7, *GUEST, "/")),
        ("amqps://h", Target("h", 5671, *GUEST, "/", is_tls=True)),
    ],
)
def test_a_url_says_where_and_who(url: str, target: Target) -> None:
    assert Target.from_url(url) == target


@pytest.mark.parametrize("url", ["http://h", "localhost:5672", "amqp://h:port"])
def test_what_is_no_amqp_url_is_refused_with_a_pattern(url: str) -> None:
    with pytest.raises(OptionsInvalid, match=r"^" + url) as caught:
        Target.from_url(url)
    assert "amqp://user:password@host:port/vhost" in caught.value.hint


def test_the_defaults_can_be_used() -> None:
    ASKED.check()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"size": 15}, "--size is 16 to"),
        ({"producers": -1}, "--producers is 0 to"),
        ({"queues": 0}, "--queues is 1 to"),
        ({"confirm": 1_000_001}, "--confirm is 0 to"),
        ({"ack_every": 0}, "--ack-every is 1 to"),
        ({"count": 0}, "--count is at least 1"),
        ({"rate": -1.0}, "--rate is not negative"),
        ({"seconds": float("nan")}, "--seconds is not negative"),
        ({"producers": 0, "consumers": 0}, "nothing to do"),
        ({"producers": 0}, "--queue says what to consume"),
        ({"verify": True, "consumers": 0}, "--verify needs producers and consumers"),
        ({"verify": True, "queues": 2}, "--verify needs a consumer for every queue"),
        ({"ack_every": 10, "prefetch": 9}, "would wait for ever"),
        ({"verify": True, "reconnect": True}, "needs --confirm and manual acks"),
        (
            {"verify": True, "reconnect": True, "confirm": 1, "auto_ack": True},
            "needs --confirm and manual acks",
        ),
    ],
)
def test_what_cannot_be_done_is_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(OptionsInvalid, match=text):
        replace(ASKED, **changes).check()


def test_acks_that_are_not_sent_may_be_as_rare_as_they_like() -> None:
    replace(ASKED, auto_ack=True, ack_every=10, prefetch=9).check()


def test_a_run_that_is_promised_something_may_reconnect() -> None:
    replace(ASKED, verify=True, reconnect=True, confirm=1).check()
    replace(ASKED, reconnect=True).check()


def test_a_password_is_not_told() -> None:
    asked = Options(Target.from_url("amqp://u:secret@h"), size=99).as_json()
    assert asked["size"] == 99
    assert "secret" not in str(asked)
