"""Prometheus' metrics at the port of the API too, for who may see everything.

The same aggregated figures as at the port of their own, where nobody is asked who they
are. Figures of single objects are there only: they are a long text.
"""

from __future__ import annotations

from typing import Final

from amqpd.http.answer import Answer
from amqpd.http.call import Call
from amqpd.http.endpoint import Endpoint, Need


async def show_metrics(call: Call) -> Answer:
    """All aggregated figures, in Prometheus' text format."""
    # Only here: the library takes a while to import, and most never ask.
    from amqpd.http.metrics_text import CONTENT_TYPE, metrics_text

    text = metrics_text(call.room)
    return Answer(text, content_type=CONTENT_TYPE)


ENDPOINTS: Final = (Endpoint("GET", "/metrics", Need.MONITORING, show_metrics),)
