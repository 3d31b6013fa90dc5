"""Certificates for a test: an authority, and whom it vouches for.

authority = Authority(directory)
authority.issue("localhost", "127.0.0.1")    a Pair: files with certificate and key
authority.client_context()                   who believes the authority
authority.client_context(pair)               and has a certificate of its own
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import trustme


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, in two files."""

    cert: Path
    key: Path


class Authority:
    """Issues certificates that it vouches for."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self.directory = directory
        #: Its own certificate.
        self.cert = directory / "ca.pem"
        self._authority = trustme.CA(organization_name="Test CA")
        self._authority.cert_pem.write_to_path(str(self.cert))
        self._numbers: Iterator[int] = count(1)

    def issue(
        self,
        *names: str,
        common_name: str | None = None,
        valid_until: datetime | None = None,
    ) -> Pair:
        """Issue a certificate for hosts (or other names), in new files."""
        number = next(self._numbers)
        pair = Pair(self.directory / f"{number}.pem", self.directory / f"{number}.key")
        self.issue_to(pair, *names, common_name=common_name, valid_until=valid_until)
        return pair

    def issue_to(
        self,
        pair: Pair,
        *names: str,
        common_name: str | None = None,
        valid_until: datetime | None = None,
    ) -> None:
        """Issue a certificate into the files of a pair."""
        issued = self._authority.issue_cert(
            *names,
            common_name=common_name,
            organization_name="Example, Inc",
            not_before=datetime(2020, 1, 1, tzinfo=UTC),
            not_after=valid_until,
        )
        pair.cert.write_bytes(issued.cert_chain_pems[0].bytes())
        pair.key.write_bytes(issued.private_key_pem.bytes())

    def client_context(self, pair: Pair | None = None) -> ssl.SSLContext:
        """What a client connects with who believes this authority."""
        context = ssl.create_default_context(cafile=str(self.cert))
        if pair is not None:
            context.load_cert_chain(pair.cert, pair.key)
        return context
