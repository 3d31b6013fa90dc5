"""A client of the management API that sends whatever a test wants.

    client = HttpClient(port, "guest", "guest")
    client.get("/api/queues/%2F/q")["messages"]           the JSON of a 200
    client.call("PUT", "/api/vhosts/v").status            any request, any answer

Paths go out as they are written. One connection each, and a timeout: a server that does
not answer fails the test. It knows nothing about which answer is right.
"""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

TIMEOUT_S: Final = 20.0


@dataclass(frozen=True)
class Reply:
    """An answer as it came."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)

    @property
    def reason(self) -> Any:
        """Why it was refused."""
        return self.json["reason"]


class HttpClient:
    """Somebody who calls the API; without a user, nobody."""

    def __init__(
        self, port: int, user: str = "", password: str = "", host: str = "127.0.0.1"
    ) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
        self._headers: dict[str, str] = {}
        if user:
            token = base64.b64encode(f"{user}:{password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {token}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def call(
        self,
        method: str,
        path: str,
        content: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send a request, with JSON (or octets as they are) if there is content."""
        body = None
        if content is not None:
            body = content if isinstance(content, bytes) else json.dumps(content)
        self._connection.request(
            method, path, body, {**self._headers, **(headers or {})}
        )
        answer = self._connection.getresponse()
        return Reply(answer.status, dict(answer.getheaders()), answer.read())

    def get(self, path: str) -> Any:
        """Return what is there.

        Raises:
            AssertionError: the answer is not 200.
        """
        reply = self.call("GET", path)
        assert reply.status == 200, (reply.status, reply.body)
        return reply.json

    def put(self, path: str, content: object = None) -> Reply:
        """Send a PUT."""
        return self.call("PUT", path, {} if content is None else content)

    def post(self, path: str, content: object = None) -> Reply:
        """Send a POST."""
        return self.call("POST", path, {} if content is None else content)

    def delete(self, path: str) -> Reply:
        """Send a DELETE."""
        return self.call("DELETE", path)
