r"""Since when whoever waits longest for a sync has waited.

Nobody's wait is timed by itself. All who came since the last step was begun are as old
as the first of them, and steps of the log come back in the order in which they began:

    on_wanted  on_begun  on_wanted  on_begun  on_done ...
    \___ one age ____/  \___ the next ____/

It knows neither the log nor who waits.
"""

from collections import deque
from typing import final


@final
class WaitAge:
    """The age of the oldest wait, by the turns in which it was noticed."""

    def __init__(self) -> None:
        # Of those in no step; None: nobody.
        self._since_ms: int | None = None
        # Of those in each step that is out.
        self._begun: deque[int | None] = deque()

    def on_wanted(self, now_ms: int) -> None:
        """Somebody waits who is in no step yet."""
        if self._since_ms is None:
            self._since_ms = now_ms

    def on_begun(self, is_wanted: bool) -> None:
        """A step was begun; whether those who waited still wait for another one."""
        self._begun.append(None if is_wanted else self._since_ms)
        if not is_wanted:
            self._since_ms = None

    def on_done(self, is_wanted: bool) -> None:
        """The oldest step came back; whether anybody who is in none still waits."""
        self._begun.popleft()
        if not is_wanted:
            self._since_ms = None

    def age_ms(self, now_ms: int) -> int:
        """Return how long the oldest has waited; 0 if nobody waits."""
        since = [ms for ms in (*self._begun, self._since_ms) if ms is not None]
        return max(0, now_ms - min(since)) if since else 0
