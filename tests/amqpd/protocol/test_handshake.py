"""The handshake, method by method: introduction, login, limits."""

import pytest
from pamqp import commands

from amqpd.auth.certificates import Certificate, CertificateLogin
from amqpd.auth.passwords import hash_password
from amqpd.auth.tls_peer import TlsPeer
from amqpd.auth.users import User, UserRegistry
from amqpd.broker.errors import (
    AmqpError,
    CommandInvalid,
    LoginFailed,
    NotAllowed,
    SyntaxInvalid,
)
from amqpd.protocol.handshake import (
    ACCEPTED_PROTOCOL_HEADERS,
    PROTOCOL_HEADER,
    Handshake,
    HandshakeOptions,
)
from amqpd.wire.methods import decode_method, encode_method
from amqpd.wire.tables import encode_table
from tests.support.secrets import Verdicts, secret_checks

REFUSED_PLAIN = (
    "Login was refused using authentication mechanism PLAIN. "
    "For details see the broker logfile."
)


def make_handshake(
    options: HandshakeOptions | None = None, peer_is_loopback: bool = True
) -> Handshake:
    users = UserRegistry()
    users.put(User("guest", hash_password("guest", b"salt")))
    users.put(User("worker", hash_password("p\udce4ss", b"salt")))
    options = options or HandshakeOptions("1.2.3")
    return Handshake(options, users, secret_checks(), peer_is_loopback)


def log_in(
    handshake: Handshake, method: commands.Connection.StartOk
) -> commands.Connection.Tune:
    """Log in by a hash that is quickly verified."""
    tune = handshake.on_start_ok(method, Verdicts())
    assert tune is not None
    return tune


def start_ok(
    response: bytes = b"\0guest\0guest",
    mechanism: str = "PLAIN",
    client_properties: dict[str, object] | None = None,
) -> commands.Connection.StartOk:
    """start-ok as it comes from the wire."""
    method = commands.Connection.StartOk(mechanism=mechanism)
    method.response = response.decode("utf-8", "surrogateescape")
    frame = encode_method(0, method)
    table = encode_table(client_properties or {})
    # pamqp's type for tables is narrower than what clients send: put it in as bytes.
    payload = frame[7:11] + len(table).to_bytes(4, "big") + table + frame[15:-1]
    decoded = decode_method(payload).method
    assert isinstance(decoded, commands.Connection.StartOk)
    return decoded


def tune_ok(
    channel_max: int = 2047, frame_max: int = 131_072, heartbeat: int = 60
) -> commands.Connection.TuneOk:
    return commands.Connection.TuneOk(channel_max, frame_max, heartbeat)


def test_both_headers_of_0_9_1_are_accepted() -> None:
    assert PROTOCOL_HEADER == b"AMQP\x00\x00\x09\x01"
    assert set(ACCEPTED_PROTOCOL_HEADERS) == {
        b"AMQP\x00\x00\x09\x01",
        b"AMQP\x01\x01\x00\x09",
    }


def test_the_server_introduces_itself_as_the_rabbitmq_it_is_compatible_with() -> None:
    start = make_handshake().start()

    assert (start.version_major, start.version_minor) == (0, 9)
    assert start.mechanisms == "PLAIN AMQPLAIN"
    assert start.locales == "en_US"
    properties = start.server_properties
    about = "amqpd 1.2.3, compatible with RabbitMQ 3.13; not RabbitMQ"
    assert properties["product"] == "RabbitMQ"
    assert properties["version"] == "3.13.7"
    assert properties["amqpd_version"] == "1.2.3"
    assert properties["platform"] == properties["information"] == about
    assert properties["capabilities"] == {
        "publisher_confirms": True,
        "exchange_exchange_bindings": True,
        "basic.nack": True,
        "consumer_cancel_notify": True,
        "connection.blocked": True,
        "consumer_priorities": True,
        "authentication_failure_close": True,
        "per_consumer_qos": True,
        "direct_reply_to": True,
    }


CERTIFICATE = Certificate(
    subject=((("organizationName", "Example"),), (("commonName", "worker"),)),
    issuer=((("commonName", "CA"),),),
    valid_from="2026-01-01T00:00:00Z",
    valid_until="2027-01-01T00:00:00Z",
)
BY_COMMON_NAME = HandshakeOptions(
    "1.2.3", certificate_login=CertificateLogin("common_name")
)


def with_tls(
    handshake: Handshake, certificate: Certificate | None = CERTIFICATE
) -> Handshake:
    handshake.tls_peer = TlsPeer("tlsv1.3", "any", "aes_256_gcm", "aead", certificate)
    return handshake


def test_external_is_offered_to_who_has_shown_a_certificate() -> None:
    assert with_tls(make_handshake()).start().mechanisms == "PLAIN AMQPLAIN EXTERNAL"
    assert with_tls(make_handshake(), None).start().mechanisms == "PLAIN AMQPLAIN"


def test_what_the_configuration_leaves_out_is_neither_offered_nor_taken() -> None:
    options = HandshakeOptions("1.2.3", mechanisms=("EXTERNAL",))
    handshake = make_handshake(options)

    assert handshake.start().mechanisms == ""
    with pytest.raises(CommandInvalid, match="authentication mechanism 'PLAIN'"):
        log_in(handshake, start_ok())


def test_the_certificate_names_the_user_whatever_the_response_says() -> None:
    handshake = with_tls(make_handshake(BY_COMMON_NAME))

    log_in(handshake, start_ok(b"guest", "EXTERNAL"))

    assert handshake.user is not None and handshake.user.name == "worker"


@pytest.mark.parametrize(
    ("login", "reason"),
    [
        (
            CertificateLogin(),
            "there is no user 'CN=worker,O=Example', whom the certificate names",
        ),
        (
            CertificateLogin("subject_alternative_name"),
            "the certificate has no subject alternative name",
        ),
    ],
)
def test_a_certificate_that_names_no_user_is_refused(
    login: CertificateLogin, reason: str
) -> None:
    options = HandshakeOptions("1.2.3", certificate_login=login)
    handshake = with_tls(make_handshake(options))

    with pytest.raises(LoginFailed):
        log_in(handshake, start_ok(b"", "EXTERNAL"))

    assert handshake.refusal == f"EXTERNAL login refused: {reason}"


@pytest.mark.parametrize("has_tls", [True, False])
def test_external_without_a_certificate_is_not_taken(has_tls: bool) -> None:
    handshake = make_handshake()
    if has_tls:
        with_tls(handshake, None)

    with pytest.raises(CommandInvalid, match="'EXTERNAL'"):
        log_in(handshake, start_ok(b"", "EXTERNAL"))


def test_the_other_identity_changes_the_names_only() -> None:
    ours = make_handshake(HandshakeOptions("1.2.3", identity="amqpd")).start()
    theirs = make_handshake().start()

    properties = dict(ours.server_properties)
    assert properties.pop("product") == "amqpd"
    assert properties.pop("version") == "1.2.3"
    for name, value in properties.items():
        assert theirs.server_properties[name] == value


def test_start_survives_the_wire() -> None:
    start = make_handshake().start()

    decoded = decode_method(encode_method(0, start)[7:-1]).method

    assert dict(decoded) == dict(start)


@pytest.mark.parametrize(
    ("mechanism", "response", "name"),
    [
        ("PLAIN", b"\0guest\0guest", "guest"),
        ("PLAIN", b"authzid\0guest\0guest", "guest"),
        ("PLAIN", b"\0worker\0p\xe4ss", "worker"),
        ("AMQPLAIN", encode_table({"LOGIN": "guest", "PASSWORD": "guest"}), "guest"),
    ],
)
def test_a_login_is_answered_with_the_limits(
    mechanism: str, response: bytes, name: str
) -> None:
    handshake = make_handshake()

    tune = log_in(handshake, start_ok(response, mechanism))

    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (2047, 131_072, 60)
    assert handshake.user is not None
    assert handshake.user.name == name
    assert handshake.mechanism == mechanism


def test_configured_limits_are_proposed() -> None:
    options = HandshakeOptions("1", frame_max=8192, channel_max=7, heartbeat_s=0)

    tune = log_in(make_handshake(options), start_ok())

    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (7, 8192, 0)


@pytest.mark.parametrize("response", [b"\0guest\0wrong", b"\0nobody\0guest", b"\0\0"])
def test_a_wrong_login_is_refused_without_a_reason(response: bytes) -> None:
    handshake = make_handshake()

    with pytest.raises(LoginFailed) as caught:
        log_in(handshake, start_ok(response))

    assert caught.value.text == REFUSED_PLAIN
    assert handshake.user is None
    assert handshake.refusal.startswith("PLAIN login refused: user '")
    assert handshake.refusal.endswith("' - invalid credentials")


def test_guest_from_elsewhere_gets_the_same_text_as_a_wrong_password() -> None:
    handshake = make_handshake(peer_is_loopback=False)

    with pytest.raises(LoginFailed) as caught:
        log_in(handshake, start_ok())

    assert caught.value.text == REFUSED_PLAIN
    assert handshake.refusal == (
        "PLAIN login refused: user 'guest' can only connect via localhost"
    )


def test_guest_from_elsewhere_is_let_in_when_configured_so() -> None:
    options = HandshakeOptions("1", loopback_users=frozenset())

    log_in(make_handshake(options, peer_is_loopback=False), start_ok())


def test_the_refusal_names_the_mechanism() -> None:
    wrong = encode_table({"LOGIN": "guest", "PASSWORD": "wrong"})

    with pytest.raises(LoginFailed, match="authentication mechanism AMQPLAIN"):
        log_in(make_handshake(), start_ok(wrong, "AMQPLAIN"))


def test_an_unknown_mechanism_is_an_invalid_command() -> None:
    with pytest.raises(CommandInvalid) as caught:
        log_in(make_handshake(), start_ok(mechanism="NOPE"))

    assert caught.value.text == "unknown authentication mechanism 'NOPE'"


@pytest.mark.parametrize(
    ("mechanism", "response"), [("PLAIN", b"guest"), ("AMQPLAIN", b"\x05LO")]
)
def test_a_malformed_response_is_a_syntax_error(
    mechanism: str, response: bytes
) -> None:
    with pytest.raises(SyntaxInvalid):
        log_in(make_handshake(), start_ok(response, mechanism))


@pytest.mark.parametrize(
    ("capabilities", "is_told"),
    [
        ({"authentication_failure_close": True}, True),
        ({"authentication_failure_close": False}, False),
        ({"authentication_failure_close": 1}, False),
        ({}, False),
        ("no table", False),
        (None, False),
        ([{"authentication_failure_close": True}], False),
    ],
)
def test_only_a_client_that_asked_for_it_is_told_of_a_refused_login(
    capabilities: object, is_told: bool
) -> None:
    handshake = make_handshake()

    with pytest.raises(LoginFailed) as caught:
        log_in(
            handshake,
            start_ok(
                b"\0guest\0wrong", client_properties={"capabilities": capabilities}
            ),
        )

    assert handshake.is_told(caught.value) is is_told


@pytest.mark.parametrize(
    "error", [CommandInvalid("x"), SyntaxInvalid("x"), NotAllowed("x")]
)
def test_every_other_error_is_told(error: AmqpError) -> None:
    assert make_handshake().is_told(error)


def test_nothing_is_believed_of_a_client_before_it_speaks() -> None:
    handshake = make_handshake()

    assert not handshake.is_told(LoginFailed("x"))
    assert handshake.user is None
    assert (handshake.connection_name, handshake.mechanism) == ("", "")
    assert handshake.refusal == ""


def test_what_the_client_says_of_itself_is_kept() -> None:
    handshake = make_handshake()
    said: dict[str, object] = {
        "product": "test",
        "connection_name": "billing worker",
        "capabilities": {"consumer_cancel_notify": True, "connection.blocked": True},
    }

    log_in(handshake, start_ok(client_properties=said))

    assert handshake.client_properties == said
    assert handshake.connection_name == "billing worker"
    assert handshake.capabilities.consumer_cancel_notify
    assert handshake.capabilities.blocked
    assert not handshake.capabilities.authentication_failure_close


@pytest.mark.parametrize(
    ("name", "expected"),
    [(7, ""), (None, ""), ({}, ""), ([], ""), ("", ""), ("\u0142", "\u0142")],
)
def test_a_connection_name_that_is_no_string_is_no_name(
    name: object, expected: str
) -> None:
    handshake = make_handshake()

    log_in(handshake, start_ok(client_properties={"connection_name": name}))

    assert handshake.connection_name == expected


def test_a_connection_name_that_is_no_text_is_shown_as_far_as_it_is() -> None:
    handshake = make_handshake()
    method = start_ok()
    method.client_properties = {"connection_name": b"a\xffb"}

    log_in(handshake, method)

    assert handshake.connection_name == "a\ufffdb"


def test_the_clients_limits_hold_when_they_are_lower() -> None:
    handshake = make_handshake()

    handshake.on_tune_ok(tune_ok(channel_max=1, frame_max=4096, heartbeat=5))

    assert handshake.channel_max == 1
    assert handshake.frame_max == 4096
    assert handshake.heartbeat_s == 5


@pytest.mark.parametrize("heartbeat", [0, 1, 600, 65535])
def test_the_client_chooses_the_heartbeat(heartbeat: int) -> None:
    handshake = make_handshake()

    handshake.on_tune_ok(tune_ok(heartbeat=heartbeat))

    assert handshake.heartbeat_s == heartbeat


@pytest.mark.parametrize(
    ("method", "negotiated", "bound"),
    [
        (tune_ok(frame_max=4095), "frame_max = 4095 is lower", "minimum (4096)"),
        (
            tune_ok(frame_max=131_073),
            "frame_max = 131073 is higher",
            "maximum (131072)",
        ),
        (tune_ok(frame_max=0), "frame_max = 0 is higher", "maximum (131072)"),
        (tune_ok(channel_max=2048), "channel_max = 2048 is higher", "maximum (2047)"),
        (
            tune_ok(channel_max=0),
            "channel_max = 0 (no limit) is higher",
            "maximum (2047)",
        ),
    ],
)
def test_limits_outside_the_proposal_are_refused(
    method: commands.Connection.TuneOk, negotiated: str, bound: str
) -> None:
    handshake = make_handshake()

    with pytest.raises(NotAllowed) as caught:
        handshake.on_tune_ok(method)

    allowed = bound.replace(" ", " allowed value ")
    assert caught.value.text == f"negotiated {negotiated} than the {allowed}"
    assert (handshake.frame_max, handshake.channel_max) == (131_072, 2047)


@pytest.mark.parametrize(("channel_max", "frame_max"), [(0, 0), (65535, 2**32 - 1)])
def test_a_server_without_limits_accepts_any(channel_max: int, frame_max: int) -> None:
    handshake = make_handshake(HandshakeOptions("1", frame_max=0, channel_max=0))

    handshake.on_tune_ok(tune_ok(channel_max=channel_max, frame_max=frame_max))

    assert handshake.channel_max == channel_max
    assert handshake.frame_max == frame_max


def test_a_server_without_limits_still_has_a_smallest_frame() -> None:
    handshake = make_handshake(HandshakeOptions("1", frame_max=0))

    with pytest.raises(NotAllowed, match="minimum allowed value"):
        handshake.on_tune_ok(tune_ok(frame_max=4095))
