"""The two transition tables: what may follow what, and what the peer is told else."""

import pytest

from amqpd.broker.errors import ChannelError, CommandInvalid
from amqpd.protocol.lifecycle import (
    CHANNEL_TRANSITIONS,
    CLOSE_OK_TIMEOUT_MS,
    HANDSHAKE_TIMEOUT_MS,
    SILENT_CLOSE_MS,
    TRANSITIONS,
    ChannelEvent,
    ChannelState,
    Event,
    State,
    advance,
    advance_channel,
    close_ok_timeout_ms,
)


def walk(*events: Event) -> State:
    state = State.AWAIT_PROTOCOL_HEADER
    for event in events:
        state = advance(state, event)
    return state


def walk_channel(*events: ChannelEvent) -> ChannelState:
    state = ChannelState.CLOSED
    for event in events:
        state = advance_channel(state, event)
    return state


HANDSHAKE = (
    Event.RECEIVED_PROTOCOL_HEADER,
    Event.RECEIVED_START_OK,
    Event.LOGGED_IN,
    Event.RECEIVED_TUNE_OK,
    Event.RECEIVED_OPEN,
)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (0, State.AWAIT_PROTOCOL_HEADER),
        (1, State.AWAIT_START_OK),
        (2, State.LOGGING_IN),
        (3, State.AWAIT_TUNE_OK),
        (4, State.AWAIT_OPEN),
        (5, State.OPEN),
    ],
)
def test_the_handshake_opens_the_connection_step_by_step(
    steps: int, expected: State
) -> None:
    assert walk(*HANDSHAKE[:steps]) is expected


@pytest.mark.parametrize("steps", range(1, 6))
def test_a_client_may_close_at_any_time_after_the_protocol_header(steps: int) -> None:
    assert walk(*HANDSHAKE[:steps], Event.RECEIVED_CLOSE) is State.CLOSED


def test_our_close_waits_for_close_ok() -> None:
    assert walk(*HANDSHAKE, Event.SENT_CLOSE) is State.AWAIT_CLOSE_OK
    assert advance(State.AWAIT_CLOSE_OK, Event.RECEIVED_CLOSE_OK) is State.CLOSED


def test_a_close_that_crossed_ours_does_not_end_the_wait_for_close_ok() -> None:
    assert advance(State.AWAIT_CLOSE_OK, Event.RECEIVED_CLOSE) is State.AWAIT_CLOSE_OK


def test_the_wait_for_close_ok_ends_with_time_or_the_socket() -> None:
    assert advance(State.AWAIT_CLOSE_OK, Event.TIME_IS_UP) is State.CLOSED
    assert advance(State.AWAIT_CLOSE_OK, Event.SOCKET_LOST) is State.CLOSED


@pytest.mark.parametrize(
    "state",
    [State.AWAIT_START_OK, State.AWAIT_TUNE_OK, State.OPEN, State.AWAIT_CLOSE_OK],
)
def test_a_peer_that_lost_our_trust_waits_in_silence_until_time_is_up(
    state: State,
) -> None:
    silent = advance(state, Event.LOST_TRUST)
    assert silent is State.CLOSING_SILENTLY
    assert advance(silent, Event.TIME_IS_UP) is State.CLOSED


def test_a_wrong_protocol_header_closes_without_delay() -> None:
    assert advance(State.AWAIT_PROTOCOL_HEADER, Event.LOST_TRUST) is State.CLOSED


def test_every_state_ends_when_the_socket_is_lost() -> None:
    for state in State:
        assert advance(state, Event.SOCKET_LOST) is State.CLOSED


def test_every_connection_state_has_a_row() -> None:
    assert set(TRANSITIONS) == set(State)


@pytest.mark.parametrize(
    ("state", "event", "word"),
    [
        (State.AWAIT_START_OK, Event.RECEIVED_TUNE_OK, "starting"),
        (State.AWAIT_TUNE_OK, Event.RECEIVED_OPEN, "tuning"),
        (State.AWAIT_OPEN, Event.RECEIVED_START_OK, "opening"),
        (State.OPEN, Event.RECEIVED_OPEN, "running"),
        (State.OPEN, Event.RECEIVED_CLOSE_OK, "running"),
    ],
)
def test_a_method_out_of_its_place_is_named_with_the_state(
    state: State, event: Event, word: str
) -> None:
    with pytest.raises(ChannelError) as caught:
        advance(state, event)
    assert caught.value.text == f"unexpected method in connection state {word}"


def test_a_channel_is_opened_used_and_closed_by_the_client() -> None:
    closed = walk_channel(
        ChannelEvent.RECEIVED_OPEN,
        ChannelEvent.RECEIVED_OTHER,
        ChannelEvent.RECEIVED_CLOSE,
    )
    assert closed is ChannelState.CLOSED


def test_a_closed_channel_number_can_be_opened_again() -> None:
    reopened = walk_channel(
        ChannelEvent.RECEIVED_OPEN,
        ChannelEvent.SENT_CLOSE,
        ChannelEvent.RECEIVED_CLOSE_OK,
        ChannelEvent.RECEIVED_OPEN,
    )
    assert reopened is ChannelState.OPEN


@pytest.mark.parametrize(
    "event",
    [
        ChannelEvent.RECEIVED_OTHER,
        ChannelEvent.RECEIVED_OPEN,
        ChannelEvent.RECEIVED_CLOSE,
    ],
)
def test_a_channel_we_closed_stays_closing_until_close_ok(event: ChannelEvent) -> None:
    assert advance_channel(ChannelState.CLOSING, event) is ChannelState.CLOSING


@pytest.mark.parametrize(
    "event",
    [
        ChannelEvent.RECEIVED_OTHER,
        ChannelEvent.RECEIVED_CLOSE,
        ChannelEvent.RECEIVED_CLOSE_OK,
    ],
)
def test_only_open_is_understood_on_a_closed_channel(event: ChannelEvent) -> None:
    with pytest.raises(ChannelError) as caught:
        advance_channel(ChannelState.CLOSED, event)
    assert caught.value.text == "expected 'channel.open'"


def test_an_open_channel_is_not_opened_twice() -> None:
    with pytest.raises(ChannelError) as caught:
        advance_channel(ChannelState.OPEN, ChannelEvent.RECEIVED_OPEN)
    assert caught.value.text == "second 'channel.open' seen"


def test_close_ok_to_no_close_is_no_command() -> None:
    with pytest.raises(CommandInvalid) as caught:
        advance_channel(ChannelState.OPEN, ChannelEvent.RECEIVED_CLOSE_OK)
    assert caught.value.text == "unimplemented method"


def test_every_channel_state_ends_with_the_connection() -> None:
    assert set(CHANNEL_TRANSITIONS) == set(ChannelState)
    for state in ChannelState:
        ended = advance_channel(state, ChannelEvent.CONNECTION_LOST)
        assert ended is ChannelState.CLOSED


@pytest.mark.parametrize(
    ("heartbeat_s", "expected_ms"), [(0, 30_000), (1, 1_000), (2, 2_000), (60, 30_000)]
)
def test_close_ok_is_awaited_for_a_heartbeat_but_no_longer_than_the_limit(
    heartbeat_s: int, expected_ms: int
) -> None:
    assert close_ok_timeout_ms(heartbeat_s) == expected_ms <= CLOSE_OK_TIMEOUT_MS


def test_the_delays_are_rabbitmqs() -> None:
    assert HANDSHAKE_TIMEOUT_MS == 10_000
    assert SILENT_CLOSE_MS == 3_000
