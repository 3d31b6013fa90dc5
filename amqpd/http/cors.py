"""Pages of other origins that may use the API from a browser, if any may.

A browser says where a page is from and asks first (OPTIONS) whether it may do what the
page wants. Whoever is on the list is answered with their own origin, never with a star:
the page brings the user's credentials with it. `*` in the list stands for everybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ANYBODY = "*"


@dataclass(frozen=True)
class Origins:
    """Who may, and how long a browser need not ask again."""

    allowed: tuple[str, ...] = ()
    max_age_s: int = 1800

    def headers(self, said: Mapping[str, str], methods: str = "") -> dict[str, str]:
        """Return what to say to a request with these headers.

        Args:
            said: the headers of the request.
            methods: what may be done there, if that was asked.
        """
        headers = {"Vary": "accept, accept-encoding, origin"}
        origin = said.get("Origin")
        if origin is None or not self._allows(origin):
            return headers
        headers["Access-Control-Allow-Origin"] = origin
        headers["Access-Control-Allow-Credentials"] = "true"
        if methods:
            headers["Access-Control-Allow-Methods"] = methods
            headers["Access-Control-Max-Age"] = str(self.max_age_s)
            wanted = said.get("Access-Control-Request-Headers")
            if wanted is not None:
                headers["Access-Control-Allow-Headers"] = wanted
        return headers

    def _allows(self, origin: str) -> bool:
        return origin in self.allowed or ANYBODY in self.allowed
