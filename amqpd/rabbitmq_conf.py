"""A rabbitmq.conf, read for what this broker has too.

The file is `key = value` lines with `#` comments. Keys that mean something here become
our settings; all others are given back by name, so that nobody believes a limit or a
certificate is in force that is not. Values may hold `$(NAME)`, an environment variable.

One difference must be kept in mind: RabbitMQ's `listeners.tcp.default = 5672` listens
on every interface, and it does so here when it is written in the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from amqpd.settings import ValueInvalid

#: Keys whose value means the same here; on the right our key.
_SAME: Final = {
    "channel_max": "channel_max",
    "cluster_name": "cluster_name",
    "default_pass": "default_pass",
    "default_user": "default_user",
    "default_vhost": "default_vhost",
    "disk_free_limit.absolute": "disk.free_limit",
    "definitions.local.path": "load_definitions",
    "frame_max": "frame_max",
    "handshake_timeout": "handshake_timeout_ms",
    "heartbeat": "heartbeat_s",
    "load_definitions": "load_definitions",
    "management.cors.max_age": "http.cors_max_age_s",
    "management.http.max_body_size": "http.max_body_size",
    "management.listener.port": "http.port",
    "management.tcp.port": "http.port",
    "max_message_size": "max_message_size",
    "prometheus.tcp.port": "prometheus.port",
    "total_memory_available_override_value": "memory.available",
    "vm_memory_high_watermark.absolute": "memory.high_watermark",
}
#: Keys whose value is a number, or the word infinity: no limit, as ours without them.
_LIMITS: Final = {
    "channel_max_per_node": "channel_max_per_node",
    "connection_max": "connection_max",
    "consumer_max_per_channel": "consumer_max_per_channel",
    "cluster_exchange_limit": "cluster_exchange_limit",
    "cluster_queue_limit": "cluster_queue_limit",
    "vhost_max": "vhost_max",
}
#: Keys whose value is a share, with or without a point.
_SHARES: Final = {
    "disk_free_limit.relative": "disk.free_limit",
    "vm_memory_high_watermark.relative": "memory.high_watermark",
}
#: Keys that name what is so here anyway, with the values for which that is true.
_ALREADY_SO: Final = {
    "definitions.import_backend": "local_filesystem",
    "log.console": "true",
    "vm_memory_calculation_strategy": "rss",
    "tcp_listen_options.nodelay": "true",
}
_LEVELS: Final = {
    "debug": "debug",
    "info": "info",
    "notice": "info",
    "warning": "warning",
    "error": "error",
    "critical": "error",
    "none": "error",
}
_FORMATS: Final = {"json": "json", "plaintext": "text"}
_EVERYWHERE: Final = ("0.0.0.0", "::")
_LINE: Final = re.compile(r"^\s*([A-Za-z0-9_.*-]+)\s*=\s*(.*?)\s*$")
_VARIABLE: Final = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")


@dataclass(frozen=True)
class Entry:
    """One of our settings as the file gives it, in text, and on which line."""

    key: str
    text: str
    line: int


@dataclass
class RabbitmqConf:
    """What the file says, in our words."""

    entries: list[Entry] = field(default_factory=list)
    #: Keys that mean nothing here: (key, line).
    unknown: list[tuple[str, int]] = field(default_factory=list)


class LineInvalid(ValueInvalid):
    """A line that is not understood, or whose value cannot be right."""

    def __init__(self, key: str, line: int, text: str) -> None:
        super().__init__(text)
        self.key = key
        self.line = line


def read_rabbitmq_conf(text: str, environment: Mapping[str, str]) -> RabbitmqConf:
    """Return the settings and the unknown keys of a rabbitmq.conf.

    Raises:
        LineInvalid: a line is no `key = value`, or names a variable that is not set.
    """
    conf = RabbitmqConf()
    listeners: list[Entry] = []
    loopback: list[Entry] = []
    origins: list[Entry] = []
    for line, raw in enumerate(text.splitlines(), start=1):
        if not raw.strip() or raw.lstrip().startswith("#"):
            continue
        entry = _split(raw, line, environment)
        if entry.key.startswith("listeners.tcp."):
            listeners.append(entry)
        elif entry.key == "loopback_users" or entry.key.startswith("loopback_users."):
            loopback.append(entry)
        elif entry.key.startswith("management.cors.allow_origins."):
            origins.append(entry)
        else:
            _map(entry, conf)
    if listeners:
        conf.entries += _listeners(listeners)
    if loopback:
        conf.entries.append(_loopback_users(loopback))
    if origins:
        said = ",".join(entry.text for entry in origins)
        conf.entries.append(Entry("http.cors_allow_origins", said, origins[0].line))
    return conf


def _split(raw: str, line: int, environment: Mapping[str, str]) -> Entry:
    match = _LINE.match(raw)
    if match is None:
        raise LineInvalid(raw.strip(), line, "is not of the form key = value")
    key, text = match.group(1), match.group(2)
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return Entry(key, text[1:-1], line)
    # A comment may follow the value.
    text = re.sub(r"\s+#.*$", "", text)
    for name in _VARIABLE.findall(text):
        if name not in environment:
            raise LineInvalid(key, line, f"names the variable {name}, which is not set")
    return Entry(key, _VARIABLE.sub(lambda found: environment[found[1]], text), line)


def _map(entry: Entry, conf: RabbitmqConf) -> None:
    if entry.key in _SAME:
        conf.entries.append(Entry(_SAME[entry.key], entry.text, entry.line))
    elif entry.key in _LIMITS:
        if entry.text != "infinity":
            conf.entries.append(Entry(_LIMITS[entry.key], entry.text, entry.line))
    elif entry.key in _SHARES:
        share = entry.text if "." in entry.text else entry.text + ".0"
        conf.entries.append(Entry(_SHARES[entry.key], share, entry.line))
    elif entry.key in ("log.console.level", "log.level"):
        level = _word(entry, _LEVELS)
        conf.entries.append(Entry("log.level", level, entry.line))
    elif entry.key == "log.console.formatter":
        conf.entries.append(Entry("log.format", _word(entry, _FORMATS), entry.line))
    elif _ALREADY_SO.get(entry.key) != entry.text:
        conf.unknown.append((entry.key, entry.line))


def _word(entry: Entry, words: Mapping[str, str]) -> str:
    try:
        return words[entry.text]
    except KeyError:
        text = f"must be one of {', '.join(words)}, not {entry.text!r}"
        raise LineInvalid(entry.key, entry.line, text) from None


def _listeners(entries: list[Entry]) -> list[Entry]:
    """Return host and port; every listener must be on the same port."""
    hosts: list[str] = []
    ports: list[str] = []
    for entry in entries:
        host, _, port = entry.text.rpartition(":")
        hosts += [host.strip("[]")] if host else _EVERYWHERE
        ports.append(port)
        if port != ports[0]:
            text = f"is on port {port}; amqpd listens on one port, here {ports[0]}"
            raise LineInvalid(entry.key, entry.line, text)
    line = entries[0].line
    # A name may be said twice: by number and by default.
    hosts = list(dict.fromkeys(hosts))
    return [Entry("host", ",".join(hosts), line), Entry("port", ports[0], line)]


def _loopback_users(entries: list[Entry]) -> Entry:
    """Return who may log in from this machine only; guest unless it is let out."""
    users = ["guest"]
    for entry in entries:
        name = entry.key.removeprefix("loopback_users").removeprefix(".")
        if not name:
            # `loopback_users = none` lets everybody in from everywhere.
            if entry.text != "none":
                text = f"must be none, not {entry.text!r}"
                raise LineInvalid(entry.key, entry.line, text)
            users.clear()
        elif _word(entry, {"true": "true", "false": "false"}) == "true":
            users.append(name)
        elif name in users:
            users.remove(name)
    return Entry("loopback_users", ",".join(dict.fromkeys(users)), entries[0].line)
