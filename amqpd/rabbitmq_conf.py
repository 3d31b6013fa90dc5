"""A rabbitmq.conf, read for what this broker has too.

The file is `key = value` lines with `#` comments. Keys that mean something here become
our settings; all others are given back by name, so that nobody believes a limit or a
certificate is in force that is not. Values may hold `$(NAME)`, an environment variable.

One difference must be kept in mind: RabbitMQ's `listeners.tcp.default = 5672` listens
on every interface, and it does so here when it is written in the file. With and without
TLS we listen on the same addresses, each on one port.
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
    "quorum_queue.property_equivalence.relaxed_checks_on_redeclaration": (
        "compat.relaxed_quorum_checks"
    ),
    "ssl_cert_login_from": "tls.login_from",
    "ssl_cert_login_san_index": "tls.login_san_index",
    "ssl_cert_login_san_type": "tls.login_san_type",
    "ssl_options.cacertfile": "tls.ca",
    "ssl_options.certfile": "tls.cert",
    "ssl_options.fail_if_no_peer_cert": "tls.require_client_cert",
    "ssl_options.keyfile": "tls.key",
    "ssl_options.password": "tls.key_password",
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
    "ssl_handshake_timeout": "5000",
    "ssl_options.client_renegotiation": "false",
    "ssl_options.honor_cipher_order": "true",
    "ssl_options.honor_ecc_order": "true",
    "ssl_options.secure_renegotiate": "true",
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
_VERIFY: Final = {"verify_peer": "peer", "verify_none": "none"}
_VERSIONS: Final = {"tlsv1.2": "1.2", "tlsv1.3": "1.3"}
_MECHANISMS: Final = ("PLAIN", "AMQPLAIN", "EXTERNAL")
#: TLS 1.3 has ciphers of its own, which OpenSSL always offers.
_TLS_13_CIPHER: Final = "TLS_"
#: Keys that stand for one setting together.
_GROUPS: Final = (
    "auth_mechanisms.",
    "listeners.ssl",
    "listeners.tcp",
    "loopback_users",
    "management.cors.allow_origins.",
    "ssl_options.ciphers.",
    "ssl_options.versions.",
)
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
    groups: dict[str, list[Entry]] = {group: [] for group in _GROUPS}
    for line, raw in enumerate(text.splitlines(), start=1):
        if not raw.strip() or raw.lstrip().startswith("#"):
            continue
        entry = _split(raw, line, environment)
        group = next((each for each in _GROUPS if entry.key.startswith(each)), None)
        if group is None:
            _map(entry, conf)
        else:
            groups[group].append(entry)
    conf.entries += _listeners(groups["listeners.tcp"], groups["listeners.ssl"])
    if groups["loopback_users"]:
        conf.entries.append(_loopback_users(groups["loopback_users"]))
    conf.entries += _origins(groups["management.cors.allow_origins."])
    conf.entries += _versions(groups["ssl_options.versions."], conf)
    conf.entries += _ciphers(groups["ssl_options.ciphers."], conf)
    conf.entries += _mechanisms(groups["auth_mechanisms."], conf)
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
    elif entry.key == "ssl_options.verify":
        conf.entries.append(Entry("tls.verify", _word(entry, _VERIFY), entry.line))
    elif _ALREADY_SO.get(entry.key) != entry.text:
        conf.unknown.append((entry.key, entry.line))


def _word(entry: Entry, words: Mapping[str, str]) -> str:
    try:
        return words[entry.text]
    except KeyError:
        text = f"must be one of {', '.join(words)}, not {entry.text!r}"
        raise LineInvalid(entry.key, entry.line, text) from None


def _listeners(tcp: list[Entry], tls: list[Entry]) -> list[Entry]:
    """Return host and ports; every listener of a kind must be on the same port."""
    settings: list[Entry] = []
    hosts: list[str] = []
    for entries, key, none in ((tcp, "port", "none"), (tls, "tls.port", "0")):
        if not entries:
            continue
        line = entries[0].line
        if [entry.text for entry in entries] == ["none"]:
            settings.append(Entry(key, none, line))
            continue
        found, port = _addresses(entries)
        if hosts and set(found) != set(hosts):
            text = (
                f"is on {', '.join(found)}; amqpd listens on the same addresses with "
                f"and without TLS, here {', '.join(hosts)}"
            )
            raise LineInvalid(entries[0].key, line, text)
        if not hosts:
            settings.append(Entry("host", ",".join(found), line))
        hosts = found
        settings.append(Entry(key, port, line))
    return settings


def _addresses(entries: list[Entry]) -> tuple[list[str], str]:
    hosts: list[str] = []
    ports: list[str] = []
    for entry in entries:
        host, _, port = entry.text.rpartition(":")
        hosts += [host.strip("[]")] if host else _EVERYWHERE
        ports.append(port)
        if port != ports[0]:
            text = f"is on port {port}; amqpd listens on one port, here {ports[0]}"
            raise LineInvalid(entry.key, entry.line, text)
    # A name may be said twice: by number and by default.
    return list(dict.fromkeys(hosts)), ports[0]


def _versions(entries: list[Entry], conf: RabbitmqConf) -> list[Entry]:
    """Return the lowest and the highest version of TLS that is wanted."""
    known = [entry for entry in entries if entry.text in _VERSIONS]
    conf.unknown += [(each.key, each.line) for each in entries if each not in known]
    if not known:
        return []
    versions = sorted(_VERSIONS[entry.text] for entry in known)
    line = known[0].line
    return [
        Entry("tls.min_version", versions[0], line),
        Entry("tls.max_version", versions[-1], line),
    ]


def _ciphers(entries: list[Entry], conf: RabbitmqConf) -> list[Entry]:
    """Return the ciphers of TLS 1.2."""
    known = [entry for entry in entries if not entry.text.startswith(_TLS_13_CIPHER)]
    conf.unknown += [(each.key, each.line) for each in entries if each not in known]
    return _joined("tls.ciphers", known)


def _mechanisms(entries: list[Entry], conf: RabbitmqConf) -> list[Entry]:
    """Return the ways to log in that there are here, too."""
    known = [entry for entry in entries if entry.text in _MECHANISMS]
    conf.unknown += [(each.key, each.line) for each in entries if each not in known]
    return _joined("auth_mechanisms", known)


def _joined(key: str, entries: list[Entry]) -> list[Entry]:
    if not entries:
        return []
    return [Entry(key, ",".join(entry.text for entry in entries), entries[0].line)]


def _origins(entries: list[Entry]) -> list[Entry]:
    """Return the origins of the API's users, if any are named."""
    if not entries:
        return []
    said = ",".join(entry.text for entry in entries)
    return [Entry("http.cors_allow_origins", said, entries[0].line)]


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
