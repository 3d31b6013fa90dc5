"""The handshake under everything a client may send: refused or let in, never broken.

Client-properties are the most varied table there is: every library fills in its own
types. Whatever it holds must neither stop a login nor switch on a notification that
the client did not ask for.
"""

import contextlib
import struct
from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import example, given
from hypothesis import strategies as st
from pamqp import base, commands

from amqpd.auth.passwords import hash_password
from amqpd.auth.users import User, UserRegistry
from amqpd.broker.errors import AmqpError, ConnectionException
from amqpd.protocol.errors import close_method
from amqpd.protocol.handshake import Handshake, HandshakeOptions
from amqpd.wire.errors import WireError
from amqpd.wire.methods import decode_method, encode_method
from amqpd.wire.tables import encode_table
from tests.support.secrets import Verdicts, secret_checks

NOTIFICATIONS = (
    "authentication_failure_close",
    "connection.blocked",
    "consumer_cancel_notify",
)

keys = st.one_of(
    st.sampled_from(["capabilities", "connection_name", "product", *NOTIFICATIONS]),
    st.text(max_size=20),
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.datetimes(
        datetime(1970, 1, 1),  # noqa: DTZ001 - hypothesis wants naive bounds
        datetime(9999, 1, 1),  # noqa: DTZ001
        timezones=st.just(UTC),
    ),
    st.decimals(-(10**5), 10**5, places=3),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=20,
)
tables = st.dictionaries(keys, values, max_size=8)


def make_handshake(peer_is_loopback: bool = True) -> Handshake:
    users = UserRegistry()
    users.put(User("guest", hash_password("guest", b"salt")))
    return Handshake(
        HandshakeOptions("1.2.3"), users, secret_checks(), peer_is_loopback
    )


def start_ok_payload(
    table: bytes,
    mechanism: bytes = b"PLAIN",
    response: bytes = b"\0guest\0guest",
) -> bytes:
    return (
        struct.pack(">HHI", 10, 11, len(table))
        + table
        + bytes([len(mechanism)])
        + mechanism
        + struct.pack(">I", len(response))
        + response
        + b"\x05en_US"
    )


def receive(handshake: Handshake, payload: bytes) -> base.Frame | Exception:
    """What the server sends for a payload on channel 0, or why it closes."""
    try:
        method = decode_method(payload).method
        if isinstance(method, commands.Connection.StartOk):
            tune = handshake.on_start_ok(method, Verdicts())
            assert tune is not None
            return tune
        if isinstance(method, commands.Connection.TuneOk):
            handshake.on_tune_ok(method)
    except (ConnectionException, WireError) as error:
        return error
    return method


def is_said(table: dict[str, object], name: str) -> bool:
    capabilities = table.get("capabilities")
    return isinstance(capabilities, dict) and capabilities.get(name) is True


@given(tables)
@example({"capabilities": {"consumer_cancel_notify": 1, "connection.blocked": "yes"}})
@example({"capabilities": [True], "connection_name": Decimal("1.5")})
def test_no_client_properties_stop_a_login(table: dict[str, object]) -> None:
    handshake = make_handshake()

    answer = receive(handshake, start_ok_payload(encode_table(table)))

    assert isinstance(answer, commands.Connection.Tune)
    said = handshake.capabilities
    assert (
        said.authentication_failure_close,
        said.blocked,
        said.consumer_cancel_notify,
    ) == tuple(is_said(table, name) for name in NOTIFICATIONS)
    assert isinstance(handshake.connection_name, str)


@given(st.binary(max_size=100))
@example(b"\x01kx\x00\x00\x00\x01\xff")
@example(b"\x0cCapabilitiesF\x00\x00\x00\x00")
@example(b"\x01\xffV\x01\xffV")
def test_arbitrary_bytes_as_client_properties_are_let_in_or_refused(
    table: bytes,
) -> None:
    answer = receive(make_handshake(), start_ok_payload(table))

    assert isinstance(answer, commands.Connection.Tune | WireError)


@given(st.sampled_from([b"PLAIN", b"AMQPLAIN"]), st.binary(max_size=60))
@example(b"PLAIN", b"\0\xff\0\xff")
@example(b"AMQPLAIN", b"\x05LOGINS\0\0\0\0\x08PASSWORDS\0\0\0\0")
def test_nobody_gets_in_with_arbitrary_bytes(mechanism: bytes, response: bytes) -> None:
    handshake = make_handshake()

    answer = receive(handshake, start_ok_payload(b"", mechanism, response))

    assert isinstance(answer, AmqpError)
    assert handshake.user is None
    assert handshake.refusal.isprintable()


@given(st.binary(max_size=80), st.sampled_from([b"", b"\0\x0a\0\x0b", b"\0\x0a\0\x1f"]))
def test_arbitrary_payloads_raise_nothing_but_what_closes_the_connection(
    payload: bytes, head: bytes
) -> None:
    answer = receive(make_handshake(), head + payload)

    if isinstance(answer, Exception):
        is_channel_level, close = close_method(answer, 0, 0)
        assert not is_channel_level
        assert len(encode_method(0, close)) <= 8 + 4 + 2 + 256 + 4


@given(st.binary(max_size=300), st.integers(0, 2**32 - 1))
def test_what_is_decoded_is_what_was_sent(payload: bytes, index: int) -> None:
    """Every octet counts: encoding what was decoded gives the payload back."""
    with contextlib.suppress(WireError):
        decoded = decode_method(index.to_bytes(4, "big") + payload)
        again = decode_method(encode_method(0, decoded.method)[7:-1])
        assert dict(again.method) == dict(decoded.method)


@given(st.integers(0, 65535), st.integers(0, 2**32 - 1), st.integers(0, 65535))
def test_agreed_limits_are_never_outside_the_proposal(
    channel_max: int, frame_max: int, heartbeat: int
) -> None:
    handshake = make_handshake()
    payload = struct.pack(">HHHIH", 10, 31, channel_max, frame_max, heartbeat)

    answer = receive(handshake, payload)

    is_inside = 1 <= channel_max <= 2047 and 4096 <= frame_max <= 131_072
    assert isinstance(answer, commands.Connection.TuneOk) is is_inside
    assert 4096 <= handshake.frame_max <= 131_072
    assert 1 <= handshake.channel_max <= 2047
