"""SASL responses: PLAIN and AMQPLAIN, well-formed and not."""

import pytest

from amqpd.auth.sasl import (
    MECHANISMS,
    MechanismUnknown,
    ResponseMalformed,
    credentials,
)
from amqpd.wire.tables import encode_table


def amqplain(login: object, password: object) -> bytes:
    return encode_table({"LOGIN": login, "PASSWORD": password})


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (b"\0guest\0secret", ("guest", "secret")),
        (b"somebody\0guest\0secret", ("guest", "secret")),
        (b"\0guest\0", ("guest", "")),
        (b"\0\0", ("", "")),
        ("\0\u0142ukasz\0p\xe4ss".encode(), ("\u0142ukasz", "p\xe4ss")),
        (b"\0guest\0p\xe4ss", ("guest", "p\udce4ss")),
    ],
)
def test_plain_holds_a_name_and_a_password(
    response: bytes, expected: tuple[str, str]
) -> None:
    assert credentials("PLAIN", response) == expected


@pytest.mark.parametrize(
    "response", [b"", b"guest", b"\0guest", b"guest\0secret", b"\0guest\0se\0cret"]
)
def test_plain_with_another_number_of_parts_is_malformed(response: bytes) -> None:
    with pytest.raises(ResponseMalformed):
        credentials("PLAIN", response)


def test_amqplain_holds_a_name_and_a_password_in_any_order() -> None:
    swapped = encode_table({"PASSWORD": "secret", "other": 1, "LOGIN": "guest"})

    assert credentials("AMQPLAIN", amqplain("guest", "secret")) == ("guest", "secret")
    assert credentials("AMQPLAIN", swapped) == ("guest", "secret")


def test_amqplain_keeps_the_bytes_of_a_password_that_is_no_text() -> None:
    response = amqplain("guest", "XX").replace(b"XX", b"\xe4\xff")

    assert credentials("AMQPLAIN", response) == ("guest", "\udce4\udcff")


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"\x05LO",
        encode_table({"LOGIN": "guest"}),
        encode_table({"PASSWORD": "secret"}),
        amqplain("guest", 1),
        amqplain(None, "secret"),
        amqplain(True, "secret"),
        amqplain("guest", {"a": "b"}),
        amqplain("guest", bytearray(b"no longstr")),
        # With the length that a table usually has.
        b"\0\0\0\x1d" + amqplain("guest", "secret"),
    ],
)
def test_amqplain_without_two_strings_is_malformed(response: bytes) -> None:
    with pytest.raises(ResponseMalformed):
        credentials("AMQPLAIN", response)


@pytest.mark.parametrize("mechanism", ["", "plain", "EXTERNAL", "ANONYMOUS", "NOPE"])
def test_a_mechanism_without_a_password_is_named(mechanism: str) -> None:
    with pytest.raises(MechanismUnknown) as caught:
        credentials(mechanism, b"\0guest\0guest")

    assert str(caught.value) == f"unknown authentication mechanism '{mechanism}'"


def test_external_is_offered_last() -> None:
    assert MECHANISMS == ("PLAIN", "AMQPLAIN", "EXTERNAL")


def test_the_text_of_a_malformed_response_does_not_repeat_the_secret() -> None:
    with pytest.raises(ResponseMalformed) as caught:
        credentials("PLAIN", b"\0guest\0hush\0hush")

    assert "hush" not in str(caught.value)
