"""Methods: what is decoded, what is refused, what is written."""

import struct
from collections.abc import Iterator

import pytest
from pamqp import base, commands, frame

from amqpd.wire.errors import FrameMalformed, MethodUnknown, SyntaxMalformed
from amqpd.wire.methods import (
    AccessRequest,
    AccessRequestOk,
    decode_method,
    encode_method,
)


def short(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def sized(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def queue_declare(
    name: bytes = b"jobs", bits: int = 0, table: bytes = b"", ticket: int = 0
) -> bytes:
    head = struct.pack(">HHH", 50, 10, ticket)
    return head + short(name) + bytes([bits]) + sized(table)


def payload_of(method: base.Frame) -> bytes:
    """The payload as pamqp, whose encoding is independent of ours, writes it."""
    return frame.marshal(method, 1)[7:-1]


def fields(method: base.Frame) -> dict[str, object]:
    return dict(method)


SAMPLES = [
    commands.Connection.StartOk({"product": "x"}, "PLAIN", "\0u\0p", "en_US"),
    commands.Connection.SecureOk("response"),
    commands.Connection.TuneOk(2047, 131072, 60),
    commands.Connection.Open("/"),
    commands.Connection.Close(200, "bye", 60, 40),
    commands.Connection.CloseOk(),
    commands.Connection.Blocked("low on memory"),
    commands.Connection.Unblocked(),
    commands.Connection.UpdateSecret("secret", "because"),
    commands.Connection.UpdateSecretOk(),
    commands.Channel.Open(),
    commands.Channel.OpenOk(),
    commands.Channel.Flow(True),
    commands.Channel.FlowOk(False),
    commands.Channel.Close(404, "NOT_FOUND", 50, 10),
    commands.Channel.CloseOk(),
    commands.Exchange.Declare(0, "logs", "topic", False, True, False, True, True),
    commands.Exchange.DeclareOk(),
    commands.Exchange.Delete(0, "logs", True, False),
    commands.Exchange.Bind(0, "to", "from", "a.*", True, {"x": False}),
    commands.Exchange.Unbind(0, "to", "from", "a.*", False, {"x": "y"}),
    commands.Exchange.UnbindOk(),
    commands.Queue.Declare(0, "jobs", True, False, True, False, True, {"x-a": True}),
    commands.Queue.DeclareOk("jobs", 4_000_000_000, 2),
    commands.Queue.Bind(0, "jobs", "logs", "key", False, {}),
    commands.Queue.Purge(0, "jobs", True),
    commands.Queue.PurgeOk(7),
    commands.Queue.Delete(0, "jobs", True, True, False),
    commands.Queue.DeleteOk(7),
    commands.Queue.Unbind(0, "jobs", "logs", "key", {"a": "b"}),
    commands.Basic.Qos(0, 100, True),
    commands.Basic.QosOk(),
    commands.Basic.Consume(0, "jobs", "tag", False, True, False, True, {}),
    commands.Basic.ConsumeOk("tag"),
    commands.Basic.Cancel("tag", True),
    commands.Basic.CancelOk("tag"),
    commands.Basic.Publish(0, "logs", "key", True, False),
    commands.Basic.Return(312, "NO_ROUTE", "logs", "key"),
    commands.Basic.Deliver("tag", 1 << 40, True, "logs", "key"),
    commands.Basic.Get(0, "jobs", True),
    commands.Basic.GetOk(3, False, "logs", "key", 9),
    commands.Basic.GetEmpty(),
    commands.Basic.Ack(5, True),
    commands.Basic.Reject(5, False),
    commands.Basic.Nack(5, True, False),
    commands.Basic.Recover(False),
    commands.Basic.RecoverOk(),
    commands.Tx.Select(),
    commands.Tx.CommitOk(),
    commands.Confirm.Select(True),
    commands.Confirm.SelectOk(),
]


def sample_name(method: base.Frame) -> str:
    return method.name


@pytest.mark.parametrize("method", SAMPLES, ids=sample_name)
def test_every_method_is_decoded_as_it_was_meant(method: base.Frame) -> None:
    decoded = decode_method(payload_of(method)).method

    assert type(decoded) is type(method)
    assert fields(decoded) == fields(method)


@pytest.mark.parametrize("method", SAMPLES, ids=sample_name)
def test_every_method_is_encoded_as_pamqp_does(method: base.Frame) -> None:
    assert encode_method(513, method) == frame.marshal(method, 513)


def test_recover_async_is_decoded_without_a_warning() -> None:
    payload = struct.pack(">HHB", 60, 100, 1)

    decoded = decode_method(payload).method

    assert isinstance(decoded, commands.Basic.RecoverAsync)
    assert decoded.requeue is True
    assert encode_method(1, decoded)[7:-1] == payload


def truncations() -> Iterator[bytes]:
    for method in SAMPLES:
        payload = payload_of(method)
        for size in range(4, len(payload)):
            yield payload[:size]


def test_a_payload_cut_anywhere_is_refused() -> None:
    for payload in truncations():
        with pytest.raises(SyntaxMalformed, match=r"^cannot decode [a-z]+\.[a-z]+: "):
            decode_method(payload)


@pytest.mark.parametrize("method", SAMPLES, ids=sample_name)
def test_a_payload_with_something_behind_it_is_refused(method: base.Frame) -> None:
    with pytest.raises(SyntaxMalformed, match="2 bytes too many"):
        decode_method(payload_of(method) + b"xx")


@pytest.mark.parametrize("payload", [b"", b"\x00", b"\x00\x32\x00"])
def test_a_payload_without_room_for_the_ids_is_a_bad_frame(payload: bytes) -> None:
    with pytest.raises(FrameMalformed):
        decode_method(payload)


def test_a_short_payload_is_quoted_as_rabbitmq_quotes_it() -> None:
    with pytest.raises(FrameMalformed) as caught:
        decode_method(b"\x00\x3c")
    assert caught.value.text == "type 1, all octets = <<0,60>>: unknown_frame"


@pytest.mark.parametrize(("class_id", "method_id"), [(60, 99), (77, 10), (0, 0)])
def test_a_method_that_does_not_exist_is_unimplemented(
    class_id: int, method_id: int
) -> None:
    with pytest.raises(MethodUnknown) as caught:
        decode_method(struct.pack(">HH", class_id, method_id))
    assert caught.value.text == "unimplemented method"


def test_bits_are_read_in_the_order_of_declaration() -> None:
    for position, name in enumerate(
        ["passive", "durable", "exclusive", "auto_delete", "nowait"]
    ):
        method = decode_method(queue_declare(bits=1 << position)).method
        assert [key for key, value in method if value is True] == [name]


def test_unused_bits_are_ignored() -> None:
    assert decode_method(queue_declare(bits=0xE0)).method["passive"] is False


def test_the_ticket_is_whatever_it_is() -> None:
    assert decode_method(queue_declare(ticket=0xFFFF)).method["ticket"] == 0xFFFF


@pytest.mark.parametrize(
    "payload",
    [
        queue_declare(table=b"\x01xt\x01"),
        struct.pack(">HHH", 50, 20, 0) + b"\0\0\0\0" + sized(b"\x01xt\x01"),
        struct.pack(">HHH", 50, 50, 0) + b"\0\0\0" + sized(b"\x01xt\x01"),
        struct.pack(">HHH", 40, 10, 0) + b"\0\0\0" + sized(b"\x01xt\x01"),
        struct.pack(">HHH", 40, 30, 0) + b"\0\0\0\0" + sized(b"\x01xt\x01"),
        struct.pack(">HHH", 40, 40, 0) + b"\0\0\0\0" + sized(b"\x01xt\x01"),
        struct.pack(">HHH", 60, 20, 0) + b"\0\0\0" + sized(b"\x01xt\x01"),
    ],
)
def test_arguments_are_handed_out_decoded_and_raw(payload: bytes) -> None:
    decoded = decode_method(payload)

    assert decoded.raw_arguments == b"\x01xt\x01"
    assert decoded.method["arguments"] == {"x": True}


def test_a_method_without_arguments_has_no_raw_ones() -> None:
    assert decode_method(payload_of(commands.Basic.Ack(1))).raw_arguments == b""


@pytest.mark.parametrize(
    "table", [b"\x05ab", b"\x01aZ\x00", b"\x01aI\x00", b"\x01aF\x00\x00\x00\x09"]
)
def test_a_malformed_table_is_refused(table: bytes) -> None:
    with pytest.raises(SyntaxMalformed):
        decode_method(queue_declare(table=table))


def test_a_name_that_is_no_utf8_is_refused() -> None:
    with pytest.raises(SyntaxMalformed) as caught:
        decode_method(queue_declare(name=b"\xff\xfe"))
    assert caught.value.text == "Malformed UTF-8 in shortstr"


@pytest.mark.parametrize(
    "name", ["\u0142ata \U0001f407", "a" * 255, "with space & <odd> 'signs'", "nu\0l"]
)
def test_names_are_not_narrowed_to_what_pamqp_likes(name: str) -> None:
    declare_ok = commands.Queue.DeclareOk()
    declare_ok.queue = name

    decoded = decode_method(queue_declare(name=name.encode())).method

    assert decoded["queue"] == name
    assert encode_method(1, declare_ok)[11:-9] == short(name.encode())


@pytest.mark.parametrize(
    ("head", "names"),
    [
        ((50, 10), ["queue"]),
        ((50, 40), ["queue"]),
        ((50, 20), ["queue", "exchange"]),
        ((50, 50), ["queue", "exchange"]),
        ((40, 10), ["exchange"]),
        ((40, 20), ["exchange"]),
        ((40, 30), ["destination", "source"]),
        ((40, 40), ["destination", "source"]),
    ],
)
def test_line_ends_are_taken_out_of_names_that_are_declared_or_bound(
    head: tuple[int, int], names: list[str]
) -> None:
    method = commands.INDEX_MAPPING[head[0] << 16 | head[1]]()
    for name in names:
        setattr(method, name, "a\r\nb\n")

    decoded = decode_method(encode_method(1, method)[7:-1]).method

    assert [decoded[name] for name in names] == ["ab"] * len(names)


@pytest.mark.parametrize(
    "method",
    [commands.Basic.Consume(), commands.Basic.Get(), commands.Queue.Purge()],
    ids=sample_name,
)
def test_line_ends_stay_in_names_that_are_only_looked_up(method: base.Frame) -> None:
    setattr(method, "queue", "a\nb")  # noqa: B010 - pamqp would refuse it typed

    decoded = decode_method(encode_method(1, method)[7:-1]).method

    assert decoded["queue"] == "a\nb"


def test_line_ends_stay_in_routing_keys_and_consumer_tags() -> None:
    bind = struct.pack(">HHH", 50, 20, 0) + short(b"q") + short(b"x")
    bind += short(b"a\nb") + b"\0" + sized(b"")
    cancel = struct.pack(">HH", 60, 30) + short(b"a\nb") + b"\0"

    assert decode_method(bind).method["routing_key"] == "a\nb"
    assert decode_method(cancel).method["consumer_tag"] == "a\nb"


def test_a_sasl_response_keeps_its_bytes() -> None:
    response = b"\x05LOGINS\x00\x00\x00\x01\xff\x80"
    payload = struct.pack(">HH", 10, 11) + sized(b"") + short(b"AMQPLAIN")
    payload += sized(response) + short(b"en_US")

    text = decode_method(payload).method["response"]

    assert isinstance(text, str)
    assert text.encode("utf-8", "surrogateescape") == response


@pytest.mark.parametrize(
    ("octets", "tag"), [(b"\x7f" + b"\xff" * 7, 2**63 - 1), (b"\xff" * 8, -1)]
)
def test_a_delivery_tag_fits_into_64_bits_with_a_sign(octets: bytes, tag: int) -> None:
    payload = struct.pack(">HH", 60, 80) + octets + b"\0"

    assert decode_method(payload).method["delivery_tag"] == tag
    assert encode_method(1, decode_method(payload).method)[7:-1] == payload


def test_access_request_is_understood_and_answered() -> None:
    payload = struct.pack(">HH", 30, 10) + short(b"/data") + b"\x1d"

    request = decode_method(payload).method

    assert isinstance(request, AccessRequest)
    assert fields(request) == {
        "realm": "/data",
        "exclusive": True,
        "passive": False,
        "active": True,
        "write": True,
        "read": True,
    }
    assert encode_method(1, request)[7:-1] == payload
    assert encode_method(1, AccessRequestOk()) == (
        b"\x01\x00\x01\x00\x00\x00\x06\x00\x1e\x00\x0b\x00\x01\xce"
    )
    assert isinstance(
        decode_method(b"\x00\x1e\x00\x0b\x00\x01").method, AccessRequestOk
    )


def test_what_is_not_set_is_written_as_nothing() -> None:
    method = commands.Basic.ConsumeOk()

    assert encode_method(1, method)[7:-1] == b"\x00\x3c\x00\x15\x00"


def test_a_short_string_that_is_too_long_is_not_written() -> None:
    with pytest.raises(ValueError, match="256 bytes"):
        encode_method(1, commands.Basic.ConsumeOk("x" * 256))
