"""The faces of channel and connection, and the line of connections with work left."""

from collections.abc import Callable

import pytest
from pamqp import commands

from amqpd.broker.errors import NotFound
from amqpd.protocol.ports import ChannelFace, ConnectionFace, PendingConnections
from tests.support.connection_pair import ConnectionPair


def test_a_pending_connection_stands_in_line_once_until_it_is_taken() -> None:
    pending, connection = PendingConnections(), ConnectionFace()
    assert not pending.has_work()
    pending.add(connection)
    pending.add(connection)
    assert pending.has_work()
    assert pending.take() == [connection]
    assert not pending.has_work()
    assert not connection.is_pending
    pending.add(connection)
    assert pending.take() == [connection]


def test_what_a_connection_does_is_the_connections_to_say() -> None:
    face, error = ConnectionFace(), NotFound("x")
    for call in (
        lambda: face.advance(0),
        lambda: face.resume_channel(1),
        lambda: face.fail_channel(1, error, 0),
        face.can_be_cancelled,
    ):
        with pytest.raises(NotImplementedError):
            call()


def test_what_a_channel_does_is_the_channels_to_say(pair: ConnectionPair) -> None:
    session = pair.connection.control.session
    assert session is not None
    face, error = ChannelFace(7, session), NotFound("x")
    assert (face.number, face.session) == (7, session)
    assert (face.is_held, face.is_ready) == (False, True)
    calls: list[Callable[[], None]] = [
        lambda: face.reply(commands.Basic.QosOk()),
        face.hold,
        face.release,
        lambda: face.fail(error),
    ]
    for call in calls:
        with pytest.raises(NotImplementedError):
            call()
