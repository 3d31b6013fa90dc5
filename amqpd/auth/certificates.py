"""The certificate of a client: what it says, and whose login it is.

Names come as OpenSSL takes them apart, a list of sets of (attribute, value), and are
written as RFC 4514 has it, last part first: `CN=worker,O=Example,C=DE`. Attributes have
the short names that RabbitMQ gives them, since users are created by these texts.

Whether the certificate is to be believed was found out in the TLS handshake: one that
was not verified never comes here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

Name = tuple[tuple[tuple[str, str], ...], ...]

_SHORT_NAMES: Final = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "emailAddress": "EMAILADDRESS",
    "generationQualifier": "GENERATIONQUALIFIER",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "pseudonym": "PSEUDONYM",
    "serialNumber": "SERIALNUMBER",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "surname": "SN",
    "title": "TITLE",
    "userId": "UID",
}
#: Kinds of alternative names, as they are configured and as OpenSSL calls them.
_ALTERNATIVES: Final = {
    "dns": "DNS",
    "email": "email",
    "ip": "IP Address",
    "uri": "URI",
}
_ESCAPED: Final = frozenset('"+,;<>\\')


@dataclass(frozen=True)
class Certificate:
    """A verified certificate."""

    subject: Name
    issuer: Name
    #: From when to when it is valid, as `2026-01-31T00:00:00Z`.
    valid_from: str
    valid_until: str
    #: Kind and value, as OpenSSL names the kinds.
    alternative_names: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class CertificateLogin:
    """What in a certificate is the name of the user."""

    #: distinguished_name, common_name or subject_alternative_name.
    source: str = "distinguished_name"
    #: dns, ip, email or uri, and which of several; of alternative names only.
    alternative: str = "dns"
    index: int = 0

    def name_in(self, certificate: Certificate) -> str:
        """Return the user's name; empty: the certificate has no such name."""
        if self.source == "distinguished_name":
            return distinguished_name(certificate.subject)
        if self.source == "common_name":
            return ",".join(_values(certificate.subject, "commonName"))
        kind = _ALTERNATIVES[self.alternative]
        names = [name for each, name in certificate.alternative_names if each == kind]
        return names[self.index] if self.index < len(names) else ""


BY_DISTINGUISHED_NAME: Final = CertificateLogin()


def distinguished_name(name: Name) -> str:
    """Return the name as RFC 4514 writes it."""
    return ",".join(
        "+".join(
            f"{_SHORT_NAMES.get(key, key)}={_escaped(value)}" for key, value in part
        )
        for part in reversed(name)
    )


def _values(name: Name, wanted: str) -> list[str]:
    return [value for part in name for key, value in part if key == wanted]


def _escaped(value: str) -> str:
    escaped = "".join(
        "\\" + each
        if each in _ESCAPED
        else each
        if each >= " "
        else f"\\{ord(each):02X}"
        for each in value
    )
    if escaped.endswith(" "):
        escaped = escaped[:-1] + "\\ "
    # A single space is the end and the beginning.
    if escaped.startswith(("#", " ")):
        escaped = "\\" + escaped
    return escaped
