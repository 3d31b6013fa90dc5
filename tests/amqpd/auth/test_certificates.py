"""Certificates: names as RFC 4514 writes them, and which of them is the user's."""

import pytest

from amqpd.auth.certificates import (
    Certificate,
    CertificateLogin,
    Name,
    distinguished_name,
)


def one(key: str, value: str) -> Name:
    return (((key, value),),)


CERTIFICATE = Certificate(
    subject=(
        (("countryName", "DE"),),
        (("organizationName", "Example"),),
        (("commonName", "worker"), ("userId", "7")),
        (("commonName", "second"),),
    ),
    issuer=one("commonName", "CA"),
    valid_from="2026-01-01T00:00:00Z",
    valid_until="2027-01-01T00:00:00Z",
    alternative_names=(
        ("DNS", "a.example"),
        ("email", "ann@example"),
        ("DNS", "b.example"),
        ("IP Address", "10.0.0.1"),
        ("URI", "spiffe://x/y"),
    ),
)


def test_a_distinguished_name_begins_with_its_last_part() -> None:
    assert distinguished_name(CERTIFICATE.subject) == (
        "CN=second,CN=worker+UID=7,O=Example,C=DE"
    )


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("Ex, Inc", "Ex\\, Inc"),
        ('a+b"c\\d<e>f;g', 'a\\+b\\"c\\\\d\\<e\\>f\\;g'),
        ("#1", "\\#1"),
        ("a#", "a#"),
        (" a ", "\\ a\\ "),
        (" ", "\\ "),
        ("a\nb", "a\\0Ab"),
        ("Zoë", "Zoë"),
        ("", ""),
    ],
)
def test_what_has_a_meaning_in_names_is_escaped(value: str, written: str) -> None:
    assert distinguished_name(one("commonName", value)) == f"CN={written}"


@pytest.mark.parametrize(
    ("attribute", "short"),
    [
        ("emailAddress", "EMAILADDRESS"),
        ("surname", "SN"),
        ("stateOrProvinceName", "ST"),
        ("domainComponent", "DC"),
        ("1.2.3.4", "1.2.3.4"),
    ],
)
def test_attributes_have_rabbitmqs_names(attribute: str, short: str) -> None:
    assert distinguished_name(one(attribute, "x")) == f"{short}=x"


@pytest.mark.parametrize(
    ("login", "name"),
    [
        (CertificateLogin(), "CN=second,CN=worker+UID=7,O=Example,C=DE"),
        (CertificateLogin("common_name"), "worker,second"),
        (CertificateLogin("subject_alternative_name"), "a.example"),
        (CertificateLogin("subject_alternative_name", "dns", 1), "b.example"),
        (CertificateLogin("subject_alternative_name", "dns", 2), ""),
        (CertificateLogin("subject_alternative_name", "email"), "ann@example"),
        (CertificateLogin("subject_alternative_name", "ip"), "10.0.0.1"),
        (CertificateLogin("subject_alternative_name", "uri"), "spiffe://x/y"),
    ],
)
def test_the_configuration_says_which_name_is_the_users(
    login: CertificateLogin, name: str
) -> None:
    assert login.name_in(CERTIFICATE) == name


def test_a_certificate_without_a_common_name_names_nobody() -> None:
    nameless = Certificate(one("organizationName", "Example"), (), "", "")

    assert CertificateLogin("common_name").name_in(nameless) == ""
