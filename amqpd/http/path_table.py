"""From the path of a request to the row of the API that is meant.

A path is taken apart as it came, and each part decoded by itself: `/api/queues/%2F/a`
is about the virtual host `/`. A part that is written out goes before a variable one
(`/api/users/bulk-delete` is no user).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final
from urllib.parse import unquote

from amqpd.http.endpoint import Endpoint
from amqpd.http.errors import MethodNotAllowed, ObjectNotFound

_HEAD: Final = "HEAD"
_GET: Final = "GET"


@final
class _Node:
    """What may follow a part of a path."""

    def __init__(self) -> None:
        self.literal: dict[str, _Node] = {}
        self.variable: _Node | None = None
        #: By method, with the names of its variable parts, in order.
        self.endpoints: dict[str, tuple[Endpoint, tuple[str, ...]]] = {}


@final
class Found:
    """The row that a request means, and the variable parts of its path."""

    def __init__(self, endpoint: Endpoint, names: dict[str, str]) -> None:
        self.endpoint = endpoint
        self.names = names


@final
class PathTable:
    """All rows, by path."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._root = _Node()
        for endpoint in endpoints:
            self._add(endpoint)

    def find(self, method: str, raw_path: str) -> Found:
        """Return the row for a request.

        Raises:
            ObjectNotFound: there is no such path.
            MethodNotAllowed: it has no such method.
        """
        node, values = self._walk(raw_path)
        row = node.endpoints.get(_GET if method == _HEAD else method)
        if row is None:
            raise MethodNotAllowed(_allowed(node))
        endpoint, names = row
        return Found(endpoint, dict(zip(names, values, strict=True)))

    def allowed(self, raw_path: str) -> str:
        """Return the methods of a path, as a header names them.

        Raises:
            ObjectNotFound: there is no such path.
        """
        return _allowed(self._walk(raw_path)[0])

    def _walk(self, raw_path: str) -> tuple[_Node, list[str]]:
        parts = raw_path.strip("/").split("/")
        found = _match(self._root, parts, 0)
        if found is None:
            raise ObjectNotFound
        return found

    def _add(self, endpoint: Endpoint) -> None:
        node = self._root
        names = []
        for part in endpoint.path.strip("/").split("/"):
            if part.startswith("{"):
                names.append(part[1:-1])
                if node.variable is None:
                    node.variable = _Node()
                node = node.variable
            else:
                node = node.literal.setdefault(part, _Node())
        assert endpoint.method not in node.endpoints, endpoint
        node.endpoints[endpoint.method] = (endpoint, tuple(names))


def _match(node: _Node, parts: list[str], index: int) -> tuple[_Node, list[str]] | None:
    if index == len(parts):
        return (node, []) if node.endpoints else None
    literal = node.literal.get(parts[index])
    if literal is not None:
        found = _match(literal, parts, index + 1)
        if found is not None:
            return found
    if node.variable is None or not parts[index]:
        return None
    found = _match(node.variable, parts, index + 1)
    if found is not None:
        found[1].insert(0, unquote(parts[index], errors="surrogateescape"))
    return found


def _allowed(node: _Node) -> str:
    methods = set(node.endpoints)
    if _GET in methods:
        methods.add(_HEAD)
    return ", ".join(sorted(methods | {"OPTIONS"}))
