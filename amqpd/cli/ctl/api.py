"""The HTTP API as verbs see it: names in, JSON out, failures that say what to do.

One connection is kept for all requests of a command. A name is a segment of the path
and is quoted whole, since a virtual host may be called "/".
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final, Self
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

from amqpd.cli.ctl.errors import EXIT_TEMPORARY, Failure, Refused, Unreachable

DEFAULT_URL: Final = "http://guest:guest@localhost:15672"
CHUNK_SIZE: Final = 64 * 1024
_PORTS: Final = {"http": 15672, "https": 15671}
#: What a browser shows of an answer that is not JSON would not help here.
_REASON_SIZE_MAX: Final = 300

#: How refusals begin that something of the user's would change.
_NEEDS_PERMISSIONS: Final = (
    "Access refused",
    "ACCESS_REFUSED",
    "User not authorised to access virtual host",
)
_NEEDS_TAG: Final = ("Not ", "User not authorised")

OnBytes = Callable[[int], None]


class Api:
    """Requests to one broker."""

    def __init__(self, url: str, timeout_s: float) -> None:
        """Understand the URL; nothing is sent yet.

        Raises:
            Failure: it is not one.
        """
        parts = _split(url)
        self._host = parts.hostname or "localhost"
        self._is_tls = parts.scheme == "https"
        self._port = parts.port or _PORTS[parts.scheme]
        self._prefix = parts.path.rstrip("/")
        self._timeout_s = timeout_s
        self._connection: HTTPConnection | None = None
        self.user = unquote(parts.username or "guest")
        self._password = unquote(parts.password or "guest")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()

    @property
    def place(self) -> str:
        """The URL without the password."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http{'s' if self._is_tls else ''}://{host}:{self._port}{self._prefix}"

    @property
    def host(self) -> str:
        """The machine that is asked."""
        return self._host

    def as_user(self, user: str, password: str) -> Api:
        """Return the same place, asked by somebody else."""
        other = Api(self.place, self._timeout_s)
        other.user, other._password = user, password
        return other

    def with_timeout(self, timeout_s: float) -> Api:
        """Return the same place and user, with another patience for each request."""
        other = self.as_user(self.user, self._password)
        other._timeout_s = timeout_s
        return other

    def get(
        self,
        *names: str,
        query: Mapping[str, str] | None = None,
        missing: Failure | None = None,
        on_bytes: OnBytes | None = None,
    ) -> Any:
        """Return what is at the path; `missing` is raised if nothing is."""
        path = _path(names, query)
        return self.request("GET", path, None, missing, on_bytes)

    def put(
        self, *names: str, body: object = None, missing: Failure | None = None
    ) -> None:
        """Create or change what is at the path."""
        self.request("PUT", _path(names, None), _as_json(body), missing)

    def post(
        self, *names: str, body: object = None, missing: Failure | None = None
    ) -> Any:
        """Have something done, and return what came of it."""
        return self.request("POST", _path(names, None), _as_json(body), missing)

    def upload(self, *names: str, data: bytes, on_bytes: OnBytes) -> None:
        """Send a document that may be large; `on_bytes` hears how much has gone."""
        self.request(
            "POST", _path(names, None), _chunks(data, on_bytes), size=len(data)
        )

    def delete(
        self,
        *names: str,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        missing: Failure | None = None,
    ) -> None:
        """Take away what is at the path."""
        self.request("DELETE", _path(names, query), None, missing, headers=headers)

    def request(
        self,
        method: str,
        path: str,
        body: bytes | Iterator[bytes] | None,
        missing: Failure | None = None,
        on_bytes: OnBytes | None = None,
        headers: Mapping[str, str] | None = None,
        size: int | None = None,
    ) -> Any:
        """Send a request and return the decoded answer, None if it is empty.

        Raises:
            Unreachable: nobody answered.
            Refused: the answer is an error, and not one that `missing` stands for.
        """
        sent = self._headers(body, size) | dict(headers or {})
        try:
            response = self._send(method, self._prefix + path, body, sent)
            data = _read(response, on_bytes)
        except (OSError, HTTPException) as error:
            raise self._unreachable(error) from error
        # RabbitMQ says 406 of the messages of a queue that it does not have.
        if response.status in (404, 405, 406) and missing is not None:
            raise missing
        if response.status >= 400:
            raise self._refused(method, path, response.status, data)
        return _decode(data, self.place)

    def _headers(
        self, body: bytes | Iterator[bytes] | None, size: int | None
    ) -> dict[str, str]:
        login = b64encode(f"{self.user}:{self._password}".encode()).decode()
        headers = {"Authorization": f"Basic {login}", "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if size is not None:
            headers["Content-Length"] = str(size)
        return headers

    def _send(
        self,
        method: str,
        target: str,
        body: bytes | Iterator[bytes] | None,
        headers: dict[str, str],
    ) -> HTTPResponse:
        used = self._connection
        if used is not None and method != "POST":
            try:
                used.request(method, target, body, headers)
                return used.getresponse()
            except (ConnectionError, HTTPException):
                # It had been closed while nothing was asked; these may be repeated.
                used.close()
        elif used is not None:
            used.close()
        self._connection = fresh = self._connect()
        try:
            fresh.request(method, target, body, headers)
        except (BrokenPipeError, ConnectionResetError):
            # Too much for it, say. It may have answered before it hung up.
            pass
        return fresh.getresponse()

    def _connect(self) -> HTTPConnection:
        kind = HTTPSConnection if self._is_tls else HTTPConnection
        return kind(self._host, self._port, timeout=self._timeout_s)

    def _unreachable(self, error: Exception) -> Unreachable:
        if isinstance(error, TimeoutError):
            text = f"{self.place} did not answer within {self._timeout_s:g} s"
            hint = "--timeout SECONDS waits longer"
            return Unreachable(text, EXIT_TEMPORARY, hint)
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        hint = (
            "is the broker running, with its HTTP API there? "
            "--url or AMQPCTL_URL says where it is"
        )
        return Unreachable(f"cannot reach {self.place}: {why}", hint=hint)

    def _refused(self, method: str, path: str, status: int, data: bytes) -> Refused:
        reason = _reason(data)
        where = f"{method} {self.place}{path}"
        if status in (401, 403):
            return self._not_allowed(status, reason, where)
        if status == 400:
            return Refused(status, reason, reason or f"{where}: bad request", 69)
        if status == 404:
            hint = "this broker has no such thing, or its version does not know it"
            return Refused(status, reason, f"{where}: not found", 69, hint)
        if status == 413:
            hint = "the broker's limit for one request body is in its configuration"
            return Refused(status, reason, f"{where}: too large", 65, hint)
        code = 69 if status == 503 else 70
        return Refused(status, reason, f"{where}: {status} {reason}".rstrip(), code)

    def _not_allowed(self, status: int, reason: str, where: str) -> Refused:
        text = f'{where}: user "{self.user}" is refused: {reason or "login failed"}'
        if reason.startswith(_NEEDS_PERMISSIONS):
            hint = (
                "the user needs permissions there: "
                f"set_permissions -p VHOST {self.user} '.*' '.*' '.*'"
            )
        elif reason.startswith(_NEEDS_TAG):
            hint = (
                f"the user needs another tag: set_user_tags {self.user} administrator"
            )
        else:
            hint = "--url or AMQPCTL_URL says who asks: http://USER:PASSWORD@HOST:15672"
        return Refused(status, reason, text, 69, hint)


def _split(url: str) -> SplitResult:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    try:
        is_usable = parts.scheme in _PORTS and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        hint = f"like this: {DEFAULT_URL}"
        raise Failure(f"not the URL of an HTTP API: {url}", 64, hint)
    return parts


def _path(names: tuple[str, ...], query: Mapping[str, str] | None) -> str:
    path = "/api/" + "/".join(_segment(name) for name in names)
    return f"{path}?{urlencode(query)}" if query else path


def _segment(name: str) -> str:
    return quote(name, safe="", errors="surrogateescape")


def _as_json(body: object) -> bytes | None:
    return None if body is None else json.dumps(body).encode()


def _chunks(data: bytes, on_bytes: OnBytes) -> Iterator[bytes]:
    view = memoryview(data)
    for start in range(0, len(data), CHUNK_SIZE):
        chunk = bytes(view[start : start + CHUNK_SIZE])
        yield chunk
        on_bytes(len(chunk))


def _read(response: HTTPResponse, on_bytes: OnBytes | None) -> bytes:
    if on_bytes is None:
        return response.read()
    chunks = []
    while chunk := response.read(CHUNK_SIZE):
        chunks.append(chunk)
        on_bytes(len(chunk))
    return b"".join(chunks)


def _decode(data: bytes, place: str) -> Any:
    if not data:
        return None
    try:
        return json.loads(data)
    except ValueError as error:
        hint = "is that the HTTP API of a broker? --url or AMQPCTL_URL says where it is"
        raise Failure(f"{place} does not answer in JSON", hint=hint) from error


def _reason(data: bytes) -> str:
    """Return what an error answer says; RabbitMQ escapes it as if for a page."""
    try:
        reason = json.loads(data)["reason"]
    except (ValueError, KeyError, TypeError):
        return data[:_REASON_SIZE_MAX].decode(errors="replace").strip()
    if not isinstance(reason, str):
        return json.dumps(reason)
    if "&" in reason:
        from html import unescape

        reason = unescape(reason)
    return reason.strip()
