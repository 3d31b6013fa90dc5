"""Memory is given back once after work, and never amid it."""

from __future__ import annotations

from amqpd.net.idle_memory import IDLE_SECONDS, TURNS_OF_WORK, IdleMemory


class Sweeps:
    """Sweeps four times a second, and how often memory was given back."""

    def __init__(self) -> None:
        self.let_go = 0
        self.given = 0
        self._memory = IdleMemory(self._let_go, self._give)
        self._now_s = 100.0
        self._turns = 0

    def _let_go(self) -> None:
        assert self.let_go == self.given
        self.let_go += 1

    def _give(self) -> None:
        assert self.let_go == self.given + 1
        self.given += 1

    def pass_by(self, seconds: float, turns_each: int) -> None:
        for _ in range(round(seconds * 4)):
            self._now_s += 0.25
            self._turns += turns_each
            self._memory.on_time(self._now_s, self._turns)


def test_who_never_worked_gives_nothing_back() -> None:
    sweeps = Sweeps()
    sweeps.pass_by(60, 0)
    sweeps.pass_by(60, TURNS_OF_WORK - 1)
    assert sweeps.let_go == sweeps.given == 0


def test_memory_is_given_back_once_when_work_has_ended_for_a_while() -> None:
    sweeps = Sweeps()
    sweeps.pass_by(10, TURNS_OF_WORK)
    assert sweeps.let_go == 0
    sweeps.pass_by(IDLE_SECONDS - 0.25, 1)
    assert sweeps.let_go == 0
    sweeps.pass_by(0.25, 1)
    assert (sweeps.let_go, sweeps.given) == (1, 0)
    sweeps.pass_by(0.25, 1)
    assert sweeps.given == 1
    sweeps.pass_by(60, 1)
    assert (sweeps.let_go, sweeps.given) == (1, 1)
    sweeps.pass_by(0.25, 1000)
    sweeps.pass_by(IDLE_SECONDS + 0.25, 0)
    assert sweeps.given == 2


def test_a_pause_amid_work_gives_nothing_back() -> None:
    sweeps = Sweeps()
    for _ in range(10):
        sweeps.pass_by(1, TURNS_OF_WORK)
        sweeps.pass_by(IDLE_SECONDS - 0.25, 0)
    assert sweeps.let_go == sweeps.given == 0


def test_work_that_comes_between_the_two_puts_giving_back_off() -> None:
    memory_given: list[bool] = []
    memory = IdleMemory(lambda: None, lambda: memory_given.append(True))
    memory.on_time(1.0, TURNS_OF_WORK)
    memory.on_time(1.0 + IDLE_SECONDS, TURNS_OF_WORK)
    memory.on_time(1.25 + IDLE_SECONDS, 2 * TURNS_OF_WORK)
    memory.on_time(1.5 + IDLE_SECONDS, 2 * TURNS_OF_WORK)
    assert not memory_given
    memory.on_time(1.25 + 2 * IDLE_SECONDS, 2 * TURNS_OF_WORK)
    memory.on_time(1.5 + 2 * IDLE_SECONDS, 2 * TURNS_OF_WORK)
    assert memory_given
