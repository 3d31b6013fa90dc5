"""Heartbeats of one connection: when to send one, when the peer counts as lost.

The rules are RabbitMQ's. Half-way through the interval we send, if nothing else was
sent meanwhile. Once an interval we look whether a byte came; two looks in a row with
none and the peer is lost. Any byte counts, not only heartbeats.

        0        T/2        T        3T/2       2T
        |---------|---------|---------|---------|
     send?       S         S         S         S        nothing sent since the last S
     silent?               R                   R        nothing received: R, R -> lost

Who asks has a clock and two counters of the bytes that crossed the socket, so asking
late is harmless: a broker that was busy for a minute looks once, not sixty times, and
never blames its peer for bytes it has not read itself. A connection whose socket we do
not read on purpose is not watched, but goes on sending.
"""

from enum import Enum
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

#: "Never", for deadlines: later than any clock.
NEVER_MS: Final = 1 << 62

#: One heartbeat frame on the wire.
HEARTBEAT_SIZE: Final = 8


class HeartbeatDue(Enum):
    """What the caller has to do now."""

    NOTHING = "nothing"
    SEND = "send"
    LOST = "lost"


@final
@mypyc_attr(acyclic=True)
class Heartbeat:
    """The two timers of a connection; an interval of 0 switches both off."""

    def __init__(self, interval_s: int, now_ms: i64) -> None:
        self.interval_s = interval_s
        self._interval_ms: i64 = interval_s * 1000
        self._send_ms: i64 = NEVER_MS
        self._look_ms: i64 = NEVER_MS
        self._bytes_in: i64 = 0
        self._bytes_out: i64 = 0
        self._is_watching = True
        self._was_silent = False
        if interval_s > 0:
            self._send_ms = now_ms + self._interval_ms // 2
            self._look_ms = now_ms + self._interval_ms

    @property
    def next_due_ms(self) -> i64:
        """When `on_time` has something to look at; asking earlier is harmless."""
        return min(self._send_ms, self._look_ms)

    def on_time(self, now_ms: i64, bytes_in: i64, bytes_out: i64) -> HeartbeatDue:
        """Return what is due, given the bytes received and sent so far.

        After SEND the caller writes one heartbeat frame; after LOST it closes the
        socket without a close frame and asks no more.
        """
        if now_ms >= self._look_ms:
            self._look_ms = now_ms + self._interval_ms
            if self._is_silent_again(bytes_in):
                return HeartbeatDue.LOST
        if now_ms >= self._send_ms:
            self._send_ms = now_ms + self._interval_ms // 2
            if bytes_out == self._bytes_out:
                # Our own heartbeat is no reason to leave out the next one.
                self._bytes_out = bytes_out + HEARTBEAT_SIZE
                return HeartbeatDue.SEND
            self._bytes_out = bytes_out
        return HeartbeatDue.NOTHING

    def stop_watching(self) -> None:
        """Do not blame the peer while we leave its bytes unread (back-pressure)."""
        self._is_watching = False

    def watch_again(self, now_ms: i64) -> None:
        """Read again: the peer has two whole intervals from now."""
        self._is_watching = True
        self._was_silent = False
        if self.interval_s > 0:
            self._look_ms = now_ms + self._interval_ms

    def _is_silent_again(self, bytes_in: i64) -> bool:
        """Whether this look and the one before it both found nothing new."""
        is_silent = bytes_in == self._bytes_in and self._is_watching
        self._bytes_in = bytes_in
        is_lost = is_silent and self._was_silent
        self._was_silent = is_silent
        return is_lost
