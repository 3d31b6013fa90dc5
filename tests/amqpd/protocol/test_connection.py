"""x."""

from tests.support.connection_pair import Bench, ConnectionPair
from tests.support.content import publish


def test_a_message_goes_through(bench: Bench, pair: ConnectionPair) -> None:
    pair.declare("q")
    pair.consume("q", no_ack=True)
    pair.send(publish("q", b"hello"))
    bench.turn()
    assert pair.deliveries() == [b"hello"]
