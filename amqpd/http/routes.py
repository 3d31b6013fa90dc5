"""The whole table of the management API: every resource's rows, one after the other.

A new resource is a file in `api` with its `ENDPOINTS`, a line here, and a row for each
endpoint in `tests/server/test_http_access.py`, which fails without them.
"""

from __future__ import annotations

from typing import Final

from amqpd.http import node_control
from amqpd.http.api import (
    attempts,
    bindings,
    channels,
    connections,
    consumers,
    definitions,
    exchanges,
    health,
    limits,
    messages,
    metrics,
    nodes,
    overview,
    parameters,
    permissions,
    policies,
    queues,
    users,
    vhosts,
    whoami,
)
from amqpd.http.endpoint import Endpoint

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *whoami.ENDPOINTS,
    *overview.ENDPOINTS,
    *nodes.ENDPOINTS,
    *health.ENDPOINTS,
    *attempts.ENDPOINTS,
    *vhosts.ENDPOINTS,
    *users.ENDPOINTS,
    *permissions.ENDPOINTS,
    *exchanges.ENDPOINTS,
    *queues.ENDPOINTS,
    *bindings.ENDPOINTS,
    *messages.ENDPOINTS,
    *metrics.ENDPOINTS,
    *connections.ENDPOINTS,
    *channels.ENDPOINTS,
    *consumers.ENDPOINTS,
    *policies.ENDPOINTS,
    *parameters.ENDPOINTS,
    *limits.ENDPOINTS,
    *definitions.ENDPOINTS,
    *node_control.ENDPOINTS,
)
