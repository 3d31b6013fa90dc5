"""The figures as the API's port gives them."""

from __future__ import annotations

from amqpd.http.metrics_text import metrics_text
from tests.support.connection_pair import Bench
from tests.support.http_room import room_of


def test_the_text_has_rabbitmqs_figures_and_our_own(bench: Bench) -> None:
    bench.connect().declare("q")
    lines = metrics_text(room_of(bench)).decode().splitlines()
    assert "rabbitmq_queues 1.0" in lines
    assert "amqpd_store_turn_max_seconds 0.25" in lines
