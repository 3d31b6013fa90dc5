"""Which step may follow which: the life of a connection and the life of a channel.

Both are tables. A caller tells what happened and gets the state that follows; what a
step entails (frames, timers, clean-up) is the caller's. A missing row means that
the peer did what it may not do now, and the error that closes it is raised here.

    connection                                    channel

    AWAIT_PROTOCOL_HEADER                         CLOSED <------+ close-ok, or
      AWAIT_START_OK                                |  open     | the client closed
        LOGGING_IN                                OPEN ---------+
          AWAIT_TUNE_OK                             |  we closed|
            AWAIT_OPEN                            CLOSING ------+
              OPEN -- we closed --> AWAIT_CLOSE_OK
                |  the client closed     |
                +-------> CLOSED <-------+
    any -- not to be trusted --> CLOSING_SILENTLY -- 3 s --> CLOSED

Nothing here is asked per message: frames of an open channel on an open connection are
dispatched without a look at the table. It does not know which method caused an event.
"""

from enum import Enum
from typing import Final

from amqpd.broker.errors import ChannelError, CommandInvalid, ConnectionException

#: How long a peer that cannot be trusted is kept waiting before its socket is closed
#: (RabbitMQ's SILENT_CLOSE_DELAY): guessing passwords becomes slow, and a close frame
#: sent before it has time to arrive.
SILENT_CLOSE_MS: Final = 3_000

#: From the accepted socket to connection.open-ok (RabbitMQ's handshake_timeout).
HANDSHAKE_TIMEOUT_MS: Final = 10_000

#: The longest wait for connection.close-ok.
CLOSE_OK_TIMEOUT_MS: Final = 30_000


class State(Enum):
    """Where a connection is; the values are RabbitMQ's words, for texts and lists."""

    AWAIT_PROTOCOL_HEADER = "pre_init"
    AWAIT_START_OK = "starting"
    #: The password is being verified.
    LOGGING_IN = "securing"
    AWAIT_TUNE_OK = "tuning"
    AWAIT_OPEN = "opening"
    OPEN = "running"
    AWAIT_CLOSE_OK = "closing"
    CLOSING_SILENTLY = "closing silently"
    CLOSED = "closed"


class Event(Enum):
    """What can happen to a connection as a whole."""

    RECEIVED_PROTOCOL_HEADER = "received protocol header"
    RECEIVED_START_OK = "received start-ok"
    LOGGED_IN = "logged in"
    RECEIVED_TUNE_OK = "received tune-ok"
    RECEIVED_OPEN = "received open"
    RECEIVED_CLOSE = "received close"
    RECEIVED_CLOSE_OK = "received close-ok"
    SENT_CLOSE = "sent close"
    LOST_TRUST = "lost trust"
    TIME_IS_UP = "time is up"
    SOCKET_LOST = "socket lost"


#: Possible in every state in which frames are exchanged: either side gives up. A client
#: may close in the middle of the handshake too; RabbitMQ hangs up on it.
_ENDINGS: Final[dict[Event, State]] = {
    Event.RECEIVED_CLOSE: State.CLOSED,
    Event.SENT_CLOSE: State.AWAIT_CLOSE_OK,
    Event.LOST_TRUST: State.CLOSING_SILENTLY,
    Event.TIME_IS_UP: State.CLOSED,
    Event.SOCKET_LOST: State.CLOSED,
}

TRANSITIONS: Final[dict[State, dict[Event, State]]] = {
    State.AWAIT_PROTOCOL_HEADER: {
        Event.RECEIVED_PROTOCOL_HEADER: State.AWAIT_START_OK,
        # Another protocol or no AMQP at all: the header we speak is the whole answer.
        Event.LOST_TRUST: State.CLOSED,
        Event.TIME_IS_UP: State.CLOSED,
        Event.SOCKET_LOST: State.CLOSED,
    },
    State.AWAIT_START_OK: {Event.RECEIVED_START_OK: State.LOGGING_IN, **_ENDINGS},
    State.LOGGING_IN: {Event.LOGGED_IN: State.AWAIT_TUNE_OK, **_ENDINGS},
    State.AWAIT_TUNE_OK: {Event.RECEIVED_TUNE_OK: State.AWAIT_OPEN, **_ENDINGS},
    State.AWAIT_OPEN: {Event.RECEIVED_OPEN: State.OPEN, **_ENDINGS},
    State.OPEN: _ENDINGS,
    State.AWAIT_CLOSE_OK: {
        **_ENDINGS,
        Event.RECEIVED_CLOSE_OK: State.CLOSED,
        # A close that crossed ours on the wire: we answer it and wait on.
        Event.RECEIVED_CLOSE: State.AWAIT_CLOSE_OK,
    },
    State.CLOSING_SILENTLY: {
        Event.TIME_IS_UP: State.CLOSED,
        Event.SOCKET_LOST: State.CLOSED,
    },
    State.CLOSED: {Event.SOCKET_LOST: State.CLOSED},
}


class ChannelState(Enum):
    """Where a channel number is; the values are RabbitMQ's words."""

    CLOSED = "closed"
    OPEN = "running"
    #: We closed it. All its frames but close and close-ok are ignored.
    CLOSING = "closing"


class ChannelEvent(Enum):
    """What can happen to a channel number as a whole."""

    RECEIVED_OPEN = "received open"
    #: Any other method, or content, of a channel.
    RECEIVED_OTHER = "received other"
    RECEIVED_CLOSE = "received close"
    RECEIVED_CLOSE_OK = "received close-ok"
    SENT_CLOSE = "sent close"
    CONNECTION_LOST = "connection lost"


CHANNEL_TRANSITIONS: Final[dict[ChannelState, dict[ChannelEvent, ChannelState]]] = {
    ChannelState.CLOSED: {
        ChannelEvent.RECEIVED_OPEN: ChannelState.OPEN,
        ChannelEvent.CONNECTION_LOST: ChannelState.CLOSED,
    },
    ChannelState.OPEN: {
        ChannelEvent.RECEIVED_OTHER: ChannelState.OPEN,
        ChannelEvent.RECEIVED_CLOSE: ChannelState.CLOSED,
        ChannelEvent.SENT_CLOSE: ChannelState.CLOSING,
        ChannelEvent.CONNECTION_LOST: ChannelState.CLOSED,
    },
    ChannelState.CLOSING: {
        ChannelEvent.RECEIVED_OPEN: ChannelState.CLOSING,
        ChannelEvent.RECEIVED_OTHER: ChannelState.CLOSING,
        # A close that crossed ours: we answer it, and its sender still owes us an ok.
        ChannelEvent.RECEIVED_CLOSE: ChannelState.CLOSING,
        ChannelEvent.RECEIVED_CLOSE_OK: ChannelState.CLOSED,
        ChannelEvent.CONNECTION_LOST: ChannelState.CLOSED,
    },
}


def advance(state: State, event: Event) -> State:
    """Return the state that follows `state` when `event` happens.

    Raises:
        ChannelError: the client sent something it may not send now. (RabbitMQ answers
            504 here too, although a method of channel 0 is at fault.)
    """
    following = TRANSITIONS[state].get(event)
    if following is None:
        raise unexpected_method(state)
    return following


def advance_channel(state: ChannelState, event: ChannelEvent) -> ChannelState:
    """Return the state of a channel that follows `state` when `event` happens.

    Raises:
        ChannelError: the channel is not open, or open already.
        CommandInvalid: close-ok to a close that never was.
    """
    following = CHANNEL_TRANSITIONS[state].get(event)
    if following is None:
        raise _unexpected_on_channel(state, event)
    return following


def unexpected_method(state: State) -> ChannelError:
    """Return the error for a method that exists but has no place in `state`."""
    return ChannelError(f"unexpected method in connection state {state.value}")


def _unexpected_on_channel(
    state: ChannelState, event: ChannelEvent
) -> ConnectionException:
    if state is ChannelState.CLOSED:
        return ChannelError("expected 'channel.open'")
    if event is ChannelEvent.RECEIVED_OPEN:
        return ChannelError("second 'channel.open' seen")
    return CommandInvalid("unimplemented method")


def close_ok_timeout_ms(heartbeat_s: int) -> int:
    """Return how long to wait for connection.close-ok: a heartbeat, at most 30 s."""
    if heartbeat_s <= 0:
        return CLOSE_OK_TIMEOUT_MS
    return min(heartbeat_s * 1000, CLOSE_OK_TIMEOUT_MS)
