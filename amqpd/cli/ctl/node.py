"""The node as a whole: stopped and started, waited for, its limits moved.

These have no place in RabbitMQ's HTTP API. amqpd has them under /api/amqpd.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from amqpd.cli.ctl.errors import (
    EXIT_DATA,
    EXIT_TEMPORARY,
    EXIT_USAGE,
    Failure,
    Unreachable,
)
from amqpd.cli.ctl.facts import is_running
from amqpd.cli.ctl.table import Answer
from amqpd.cli.ctl.verb import Call, Verb

STARTUP_TIMEOUT_S: Final = 300.0
POLL_S: Final = 0.05
_ONLY_AMQPD: Final = Failure("only amqpd can be told this over HTTP")
_UNITS: Final = {
    "": 1,
    "b": 1,
    "k": 1024,
    "kb": 1000,
    "kib": 1024,
    "m": 1024**2,
    "mb": 1000**2,
    "mib": 1024**2,
    "g": 1024**3,
    "gb": 1000**3,
    "gib": 1024**3,
    "t": 1024**4,
    "tb": 1000**4,
    "tib": 1024**4,
}


def stop_app(call: Call) -> Answer:
    """Close all connections and the data; the process and this API stay."""
    _set(call, "app", "stopped")
    _wait(call, lambda: not is_running(call) and _answers(call), "stop")
    return None


def start_app(call: Call) -> Answer:
    """Open the data and the listeners again."""
    _set(call, "app", "running")
    _wait(call, lambda: is_running(call), "start")
    return None


def reset(call: Call) -> Answer:
    """Empty a stopped node: no messages, no users, nothing that was declared.

    Raises:
        Failure: it runs.
    """
    _set(call, "app", "blank")
    return None


def evaluate(call: Call) -> Answer:
    """Refuse: there is no Erlang here, and no other code runs in the broker either.

    Raises:
        Failure: always.
    """
    text = "amqpd runs no Erlang: an expression cannot be evaluated in it"
    raise Failure(text, EXIT_USAGE, "amqpctl help lists what it can be told")


def await_startup(call: Call) -> Answer:
    """Return when the broker serves."""
    _wait(call, lambda: is_running(call), "start")
    return None


def shutdown(call: Call) -> Answer:
    """End the process, and return when nobody answers any more."""
    _set(call, "app", "ended")
    _wait(call, lambda: not _answers(call), "end")
    return None


def _set(call: Call, what: str, state: str) -> None:
    call.api.put("amqpd", what, body={"state": state}, missing=_ONLY_AMQPD)


def _answers(call: Call) -> bool:
    """Say whether the stopped node has opened the API again."""
    try:
        call.api.get("whoami")
    except Unreachable:
        return False
    return True


def _wait(call: Call, is_done: Callable[[], bool], what: str) -> None:
    patience_s = STARTUP_TIMEOUT_S if call.said.timeout is None else call.timeout_s
    deadline = time.monotonic() + patience_s
    while not is_done():
        if time.monotonic() > deadline:
            text = f"{call.api.place} did not {what} within {patience_s:g} s"
            raise Failure(text, EXIT_TEMPORARY, "--timeout SECONDS waits longer")
        time.sleep(POLL_S)


def suspend_listeners(call: Call) -> Answer:
    """Let nobody connect any more; who is connected stays."""
    _set(call, "listeners", "suspended")
    return None


def resume_listeners(call: Call) -> Answer:
    """Let people connect again."""
    _set(call, "listeners", "running")
    return None


def set_log_level(call: Call) -> Answer:
    """Set which records the broker's log gets."""
    body = {"level": call.said.level}
    call.api.put("amqpd", "log-level", body=body, missing=_ONLY_AMQPD)
    return None


def set_vm_memory_high_watermark(call: Call) -> Answer:
    """Set how much memory may be used before publishers are held."""
    limit = limit_of(call.said.limit, "absolute")
    call.api.put("amqpd", "vm-memory-high-watermark", body=limit, missing=_ONLY_AMQPD)
    return None


def set_disk_free_limit(call: Call) -> Answer:
    """Set how much disk must stay free, or publishers are held."""
    limit = limit_of(call.said.limit, "mem_relative")
    call.api.put("amqpd", "disk-free-limit", body=limit, missing=_ONLY_AMQPD)
    return None


def limit_of(words: list[str], keyword: str) -> dict[str, float]:
    """Return a limit as the API takes it; `keyword` is what may stand before it.

    Raises:
        Failure: it is not one.
    """
    is_keyword = len(words) == 2 and words[0] == keyword
    if not is_keyword and len(words) != 1:
        raise Failure(f"a limit, or {keyword} and a limit, not {' '.join(words)}", 64)
    is_relative = is_keyword == (keyword == "mem_relative")
    if not is_relative:
        return {"absolute": size_of(words[-1])}
    fraction = _fraction(words[-1])
    if keyword == "absolute" and fraction > 1:
        raise Failure("The threshold should be a fraction between 0.0 and 1.0", 65)
    return {"relative": fraction}


def _fraction(text: str) -> float:
    try:
        fraction = float(text)
    except ValueError:
        fraction = -1.0
    if not 0 <= fraction < float("inf"):
        raise Failure(f"not a fraction: {text}", EXIT_DATA)
    return fraction


def size_of(text: str) -> int:
    """Return how many bytes "512MiB" is.

    Raises:
        Failure: it is no size.
    """
    digits = text.rstrip("".join({*"bkmgti", *"BKMGTI"}))
    unit = text[len(digits) :].lower()
    try:
        number = float(digits)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf") or unit not in _UNITS:
        raise Failure(f"not a size: {text}", EXIT_DATA, "like 500000000, 512MiB or 2GB")
    return int(number * _UNITS[unit])


VERBS: Final = (
    Verb(
        "stop_app",
        stop_app,
        "close all connections, and serve nobody until start_app",
        banner="Stopping rabbit application ...",
    ),
    Verb(
        "start_app",
        start_app,
        "serve again, as after a restart",
        banner="Starting node ...",
    ),
    Verb(
        "reset",
        reset,
        "empty a stopped node: messages, users, everything that was declared",
        banner="Resetting node ...",
    ),
    Verb(
        "force_reset",
        reset,
        "the same",
        banner="Forcefully resetting node ...",
    ),
    Verb(
        "eval",
        evaluate,
        "refused: there is no Erlang to evaluate an expression in",
        "expression*",
    ),
    Verb(
        "shutdown",
        shutdown,
        "end the broker's process, as SIGTERM does",
        banner="Shutting down RabbitMQ node ...",
    ),
    Verb("await_startup", await_startup, "return when the broker serves"),
    Verb(
        "suspend_listeners",
        suspend_listeners,
        "let nobody connect any more; who is connected stays",
        banner="Will suspend client connection listeners ...",
    ),
    Verb(
        "resume_listeners",
        resume_listeners,
        "let clients connect again",
        banner="Will resume client connection listeners ...",
    ),
    Verb(
        "set_log_level",
        set_log_level,
        "which records the log gets: debug, info, warning, error, critical",
        "level",
        banner='Setting log level to "{level}" ...',
    ),
    Verb(
        "set_vm_memory_high_watermark",
        set_vm_memory_high_watermark,
        "hold publishers above this: a fraction of memory, or: absolute 2GB",
        "limit+",
        banner='Setting memory threshold to "{limit}" ...',
    ),
    Verb(
        "set_disk_free_limit",
        set_disk_free_limit,
        "hold publishers below this: 2GB, or a multiple of memory: mem_relative 1.5",
        "limit+",
        banner='Setting disk free limit to "{limit}" ...',
    ),
)
