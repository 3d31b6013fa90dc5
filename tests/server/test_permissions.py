"""What the user `limited` may not do.

Its permissions (definitions.json) are read off the names: what begins with `c` may
be configured, one whose second letter is `w` written, whose third is `r` read. A `-` in
the place of the letter takes the permission away: `c-r...` may not be written.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterator

import pytest
from pamqp import base
from pamqp.commands import Basic, Exchange, Queue

from tests.support.differences import Expectations
from tests.support.raw_client import Endpoint, RawClient, channel_closed

Named = Callable[[str], str]
Make = Callable[[Named], base.Frame]


@pytest.fixture
def limited(broker: Endpoint) -> Iterator[RawClient]:
    """A connection of the limited user with channel 1 open."""
    endpoint = dataclasses.replace(broker, user="limited", password="limited")
    with RawClient(endpoint) as client:
        yield client.open().open_channel()


@pytest.fixture
def named() -> Named:
    """Return a name that begins with the given letters, the same for each of them."""
    suffix = uuid.uuid4().hex[:12]
    return lambda letters: f"{letters}-{suffix}"


DEAD_LETTER = "x-dead-letter-exchange"


def declare_queue(named: Named, queue: str, dead_letter: str) -> base.Frame:
    arguments = {DEAD_LETTER: named(dead_letter) if dead_letter else ""}
    return Queue.Declare(0, named(queue), exclusive=True, arguments=arguments)  # type: ignore[arg-type]


def declare_exchange(named: Named, exchange: str, alternate: str) -> base.Frame:
    arguments = {"alternate-exchange": named(alternate) if alternate else ""}
    return Exchange.Declare(0, named(exchange), arguments=arguments)  # type: ignore[arg-type]


#: What is done, which permission on what is missing, and whose ids the close bears.
REFUSED: dict[str, tuple[Make, str, str, tuple[int, int]]] = {
    "declare a queue": (
        lambda n: Queue.Declare(0, n("-wr")),
        "configure",
        "queue -wr",
        (50, 10),
    ),
    "declare a queue with a dead letter exchange, queue not readable": (
        lambda n: declare_queue(n, "cw-", "cwr"),
        "read",
        "queue cw-",
        (50, 10),
    ),
    "declare a queue with a dead letter exchange, exchange not writable": (
        lambda n: declare_queue(n, "cwr", "c-r"),
        "write",
        "exchange c-r",
        (50, 10),
    ),
    "declare a queue with the default exchange for dead letters": (
        lambda n: declare_queue(n, "cwr", ""),
        "write",
        "exchange amq.default",
        (50, 10),
    ),
    "delete a queue": (
        lambda n: Queue.Delete(0, n("-wr")),
        "configure",
        "queue -wr",
        (50, 40),
    ),
    "purge a queue": (
        lambda n: Queue.Purge(0, n("cw-")),
        "read",
        "queue cw-",
        (50, 30),
    ),
    "bind a queue, queue not writable": (
        lambda n: Queue.Bind(0, n("c-r"), n("cw-"), "k"),
        "write",
        "queue c-r",
        (50, 20),
    ),
    "bind a queue, exchange not readable": (
        lambda n: Queue.Bind(0, n("cwr"), n("cw-"), "k"),
        "read",
        "exchange cw-",
        (50, 20),
    ),
    "unbind a queue, queue not writable": (
        lambda n: Queue.Unbind(0, n("c-r"), n("cwr"), "k"),
        "write",
        "queue c-r",
        (50, 50),
    ),
    "unbind a queue, exchange not readable": (
        lambda n: Queue.Unbind(0, n("cwr"), n("cw-"), "k"),
        "read",
        "exchange cw-",
        (50, 50),
    ),
    "declare an exchange": (
        lambda n: Exchange.Declare(0, n("-wr")),
        "configure",
        "exchange -wr",
        (40, 10),
    ),
    "declare an exchange with an alternate, exchange not readable": (
        lambda n: declare_exchange(n, "cw-", "cwr"),
        "read",
        "exchange cw-",
        (40, 10),
    ),
    "declare an exchange with an alternate, alternate not writable": (
        lambda n: declare_exchange(n, "cwr", "c-r"),
        "write",
        "exchange c-r",
        (40, 10),
    ),
    "declare an exchange with the default exchange as alternate": (
        lambda n: declare_exchange(n, "cwr", ""),
        "write",
        "exchange amq.default",
        (40, 10),
    ),
    "delete an exchange": (
        lambda n: Exchange.Delete(0, n("-wr")),
        "configure",
        "exchange -wr",
        (40, 20),
    ),
    "bind an exchange, destination not writable": (
        lambda n: Exchange.Bind(0, n("c-r"), n("cw-"), "k"),
        "write",
        "exchange c-r",
        (40, 30),
    ),
    "bind an exchange, source not readable": (
        lambda n: Exchange.Bind(0, n("cwr"), n("cw-"), "k"),
        "read",
        "exchange cw-",
        (40, 30),
    ),
    "unbind an exchange": (
        lambda n: Exchange.Unbind(0, n("c-r"), n("cwr"), "k"),
        "write",
        "exchange c-r",
        (40, 40),
    ),
    "get": (
        lambda n: Basic.Get(0, n("cw-")),
        "read",
        "queue cw-",
        (60, 70),
    ),
    "consume": (
        lambda n: Basic.Consume(0, n("cw-")),
        "read",
        "queue cw-",
        (60, 20),
    ),
}


def expect_refused(
    client: RawClient,
    expectations: Expectations,
    kind: str,
    resource: str,
    ids: tuple[int, int],
) -> None:
    text = (
        f"ACCESS_REFUSED - {kind} access to {resource} in vhost '/' "
        "refused for user 'limited'"
    )
    expected = expectations.of(
        "permission-kind-in-text",
        channel_closed(403, text, *ids),
        resource=resource,
        user="limited",
    )
    client.expect_refusal(expected)


@pytest.mark.parametrize("case", REFUSED)
def test_a_missing_permission_is_403_whether_the_thing_exists_or_not(
    limited: RawClient, expectations: Expectations, named: Named, case: str
) -> None:
    make, kind, thing, ids = REFUSED[case]
    limited.send_method(1, make(named))
    what, _, letters = thing.partition(" ")
    name = letters if letters == "amq.default" else named(letters)
    expect_refused(limited, expectations, kind, f"{what} '{name}'", ids)


@pytest.mark.parametrize("exchange", ["", "c-r-nowhere"])
def test_publishing_needs_write_on_the_exchange(
    limited: RawClient, expectations: Expectations, exchange: str
) -> None:
    limited.publish(1, Basic.Publish(0, exchange, "k"), b"x")
    resource = f"exchange '{exchange or 'amq.default'}'"
    expect_refused(limited, expectations, "write", resource, (60, 40))


def test_redeclaring_needs_configure_too(
    limited: RawClient,
    client: RawClient,
    expectations: Expectations,
    named: Named,
) -> None:
    name = named("-wr")
    declare = Queue.Declare(0, name, auto_delete=True)
    client.call(1, declare, Queue.DeclareOk)
    limited.send_method(1, declare)
    expect_refused(limited, expectations, "configure", f"queue '{name}'", (50, 10))
    client.call(1, Queue.Delete(0, name), Queue.DeleteOk)


def test_asking_whether_a_thing_exists_needs_no_permission(
    limited: RawClient, client: RawClient, named: Named
) -> None:
    name = named("---")
    client.call(1, Queue.Declare(0, name), Queue.DeclareOk)
    limited.call(1, Queue.Declare(0, name, passive=True), Queue.DeclareOk)
    client.call(1, Queue.Delete(0, name), Queue.DeleteOk)
    limited.call(1, Exchange.Declare(0, "amq.direct", passive=True), Exchange.DeclareOk)


def test_a_reserved_name_is_refused_as_such(limited: RawClient) -> None:
    limited.send_method(1, Queue.Declare(0, "amq.new"))
    text = "ACCESS_REFUSED - queue name 'amq.new' contains reserved prefix 'amq.*'"
    limited.expect_refusal(channel_closed(403, text, 50, 10))


def test_with_all_three_permissions_everything_works(
    limited: RawClient, named: Named
) -> None:
    queue, exchange = named("cwr"), named("cwrx")
    limited.call(1, Exchange.Declare(0, exchange), Exchange.DeclareOk)
    limited.call(1, Queue.Declare(0, queue), Queue.DeclareOk)
    limited.call(1, Queue.Bind(0, queue, exchange, "k"), Queue.BindOk)
    limited.publish(1, Basic.Publish(0, exchange, "k"), b"x")
    message = limited.get(queue)
    assert message is not None
    assert message.body == b"x"
    limited.call(1, Queue.Purge(0, queue), Queue.PurgeOk)
    limited.call(1, Queue.Unbind(0, queue, exchange, "k"), Queue.UnbindOk)
    limited.call(1, Queue.Delete(0, queue), Queue.DeleteOk)
    limited.call(1, Exchange.Delete(0, exchange), Exchange.DeleteOk)
