"""The whole table of the management API: every resource's rows, one after the other.

A new resource is a file in `api` with its `ENDPOINTS`, a line here, and a row for each
endpoint in `tests/server/test_http_access.py`, which fails without them.
"""

from __future__ import annotations

from typing import Final

from amqpd.http.api import definitions, limits, parameters, policies, whoami
from amqpd.http.endpoint import Endpoint

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *definitions.ENDPOINTS,
    *limits.ENDPOINTS,
    *parameters.ENDPOINTS,
    *policies.ENDPOINTS,
    *whoami.ENDPOINTS,
)
