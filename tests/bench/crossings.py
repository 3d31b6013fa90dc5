"""The ways from one class into another, to be timed; `boundaries` compiles this file.

Each `time_*` makes the same call `count` times from one native class into another and
returns the nanoseconds of all of them. `time_nothing` is the loop alone.
"""

import time
from enum import Enum
from typing import NamedTuple, Protocol, final

from mypy_extensions import i64, trait


class Base:
    """A native base, as `amqpd.protocol.ports.ChannelFace` is one."""

    def add(self, number: i64) -> i64:
        """Return the number after it."""
        raise NotImplementedError


@trait
class Trait:
    """A trait, as `amqpd.broker.ports.DurabilityWaiter` is one."""

    def add_by_trait(self, number: i64) -> i64:
        """Return the number after it."""
        raise NotImplementedError


class Face(Protocol):
    """A protocol that nobody inherits."""

    def add(self, number: i64) -> i64:
        """Return the number after it."""


@final
class Counter(Base, Trait):
    """What is called."""

    def add(self, number: i64) -> i64:
        """Return the number after it."""
        return number + 1

    def add_by_trait(self, number: i64) -> i64:
        """Return the number after it."""
        return number + 1


@final
class Pair:
    """A small native class, made and read."""

    __slots__ = ("first", "second")

    def __init__(self, first: i64, second: i64) -> None:
        self.first: i64 = first
        self.second: i64 = second


class TuplePair(NamedTuple):
    """The same as a named tuple."""

    first: int
    second: int


class Colour(Enum):
    """Something to compare with."""

    RED = 1
    BLUE = 2


def time_nothing(count: i64) -> int:
    """Count up without a call."""
    number: i64 = 0
    started = time.perf_counter_ns()
    while number < count:
        number += 1
    return time.perf_counter_ns() - started


def time_final_class(target: Counter, count: i64) -> int:
    """Call a method of a final native class."""
    number: i64 = 0
    started = time.perf_counter_ns()
    while number < count:
        number = target.add(number)
    return time.perf_counter_ns() - started


def time_native_base(target: Base, count: i64) -> int:
    """Call the same through its native base."""
    number: i64 = 0
    started = time.perf_counter_ns()
    while number < count:
        number = target.add(number)
    return time.perf_counter_ns() - started


def time_trait(target: Trait, count: i64) -> int:
    """Call through a trait that the class inherits."""
    number: i64 = 0
    started = time.perf_counter_ns()
    while number < count:
        number = target.add_by_trait(number)
    return time.perf_counter_ns() - started


def time_protocol(target: Face, count: i64) -> int:
    """Call through a protocol that the class does not inherit."""
    number: i64 = 0
    started = time.perf_counter_ns()
    while number < count:
        number = target.add(number)
    return time.perf_counter_ns() - started


def time_native_object(count: i64) -> int:
    """Make a native object of two numbers and read one back."""
    number: i64 = 0
    started = time.perf_counter_ns()
    while number < count:
        pair = Pair(number, 1)
        number = pair.first + pair.second
    return time.perf_counter_ns() - started


def time_named_tuple(count: i64) -> int:
    """Make a named tuple of two numbers and read one back."""
    number = 0
    started = time.perf_counter_ns()
    while number < count:
        pair = TuplePair(number, 1)
        number = pair.first + pair.second
    return time.perf_counter_ns() - started


def time_enum(colour: Colour, count: i64) -> int:
    """Compare a member of an enumeration by `is`."""
    number: i64 = 0
    started = time.perf_counter_ns()
    while number < count:
        if colour is Colour.RED:
            number += 1
        number += 1
    return time.perf_counter_ns() - started
