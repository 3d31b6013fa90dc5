"""What can be set: one row per setting, with its kind, default and bounds.

A setting arrives as TOML (already an int or a list) or as text (environment, flags,
rabbitmq.conf). Its kind turns either into the one value that the broker uses, or says
in words what is wrong with it; where it came from is the caller's to add. The names of
the environment variable and of the configuration field follow from the key, so that
there is nothing to remember: `log.level` is `AMQPD_LOG_LEVEL` and `log_level`.

Knows nothing of files, of the environment, or of what a setting does.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

Value = int | float | str | Path | tuple[str, ...] | None


class ValueInvalid(ValueError):
    """A value that the setting does not take; the text says what it does take."""


class Kind(Protocol):
    """Turns what was written into what is used."""

    def from_text(self, text: str) -> Value:
        """Return the value that `text` stands for, or raise ValueInvalid."""

    def from_toml(self, value: object) -> Value:
        """Return the value that a decoded TOML value stands for, or raise."""


@dataclass(frozen=True)
class Integer:
    """A whole number within bounds, both included."""

    low: int
    high: int

    def from_text(self, text: str) -> int:
        """Return the number in `text`; underscores between digits are fine."""
        try:
            return self.from_toml(int(text))
        except ValueInvalid:
            raise
        except ValueError:
            raise ValueInvalid(f"must be a whole number, not {text!r}") from None

    def from_toml(self, value: object) -> int:
        """Return `value` if it is a number within the bounds."""
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueInvalid(f"must be a whole number, not {value!r}")
        if not self.low <= value <= self.high:
            raise ValueInvalid(
                f"must be between {self.low} and {self.high}, not {value}"
            )
        return value


@dataclass(frozen=True)
class Port:
    """A port that clients connect to, or the word none: nobody listens."""

    def from_text(self, text: str) -> int | None:
        """Return the port in `text`; None for none."""
        return None if text == _NONE else Integer(0, 65535).from_text(text)

    def from_toml(self, value: object) -> int | None:
        """Return the port; None for the text "none"."""
        return None if value == _NONE else Integer(0, 65535).from_toml(value)


@dataclass(frozen=True)
class Boolean:
    """Yes or no."""

    def from_text(self, text: str) -> bool:
        """Return whether `text` is true."""
        if text not in ("true", "false"):
            raise ValueInvalid(f"must be true or false, not {text!r}")
        return text == "true"

    def from_toml(self, value: object) -> bool:
        """Return `value` if it is true or false."""
        if not isinstance(value, bool):
            raise ValueInvalid(f"must be true or false, not {value!r}")
        return value


@dataclass(frozen=True)
class Text:
    """Any text that is not empty."""

    def from_text(self, text: str) -> str:
        """Return `text`."""
        return self.from_toml(text)

    def from_toml(self, value: object) -> str:
        """Return `value` if it is text."""
        if not isinstance(value, str):
            raise ValueInvalid(f"must be text, not {value!r}")
        if not value:
            raise ValueInvalid("must not be empty")
        return value


@dataclass(frozen=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]

    def from_text(self, text: str) -> str:
        """Return `text` if it is one of the words."""
        return self.from_toml(text)

    def from_toml(self, value: object) -> str:
        """Return `value` if it is one of the words."""
        if not isinstance(value, str) or value not in self.words:
            raise ValueInvalid(f"must be one of {', '.join(self.words)}, not {value!r}")
        return value


@dataclass(frozen=True)
class TextList:
    """Several texts: a list in TOML, separated by commas elsewhere."""

    may_be_empty: bool
    #: Which texts they may be; none: any.
    words: tuple[str, ...] = ()

    def from_text(self, text: str) -> tuple[str, ...]:
        """Return what stands between the commas; empty text is an empty list."""
        return self.from_toml(
            [part.strip() for part in text.split(",") if part.strip()]
        )

    def from_toml(self, value: object) -> tuple[str, ...]:
        """Return the items of a list; a single text is a list of one."""
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(
            isinstance(item, str) and item for item in items
        ):
            raise ValueInvalid(f"must be a list of texts, not {value!r}")
        if not items and not self.may_be_empty:
            raise ValueInvalid("must not be empty")
        for item in items if self.words else ():
            Choice(self.words).from_toml(item)
        return tuple(items)


@dataclass(frozen=True)
class Amount:
    """Octets (a number, or text with a unit), or a share of something (0.6)."""

    def from_text(self, text: str) -> int | float:
        """Return octets as a whole number, or a share as a number with a point."""
        found = _AMOUNT.fullmatch(text.strip())
        if found is None:
            raise ValueInvalid(
                f"must be octets (with a unit, like 512MiB) or a share (like 0.6), "
                f"not {text!r}"
            )
        number, unit = found.groups()
        if unit:
            return int(float(number) * _UNITS[unit.lower()])
        return float(number) if "." in number else int(number)

    def from_toml(self, value: object) -> int | float:
        """Return octets or a share."""
        if isinstance(value, str):
            return self.from_text(value)
        if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
            raise ValueInvalid(f"must be octets or a share, not {value!r}")
        return value


@dataclass(frozen=True)
class FilePath:
    """A path; `~` is the home directory. Whether it is there is not asked here."""

    def from_text(self, text: str) -> Path:
        """Return the path that `text` names."""
        return self.from_toml(text)

    def from_toml(self, value: object) -> Path:
        """Return the path that `value` names."""
        return Path(Text().from_toml(value)).expanduser()


@dataclass(frozen=True)
class Setting:
    """One thing that can be set."""

    key: str
    kind: Kind
    default: Value
    #: Shown as asterisks wherever the configuration is printed.
    is_secret: bool = False

    @property
    def field(self) -> str:
        """Its name in `amqpd.config.Config`."""
        return self.key.replace(".", "_")

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return "AMQPD_" + self.field.upper()


#: RabbitMQ's units: with a B, but for iB, powers of ten.
_UNITS: Final = {
    "k": 2**10,
    "kib": 2**10,
    "kb": 10**3,
    "m": 2**20,
    "mib": 2**20,
    "mb": 10**6,
    "g": 2**30,
    "gib": 2**30,
    "gb": 10**9,
    "t": 2**40,
    "tib": 2**40,
    "tb": 10**12,
}
_NONE: Final = "none"
_AMOUNT: Final = re.compile(
    r"(\d+(?:\.\d+)?)\s*(k|kib|kb|m|mib|mb|g|gib|gb|t|tib|tb)?", re.IGNORECASE
)


def _default_data_dir() -> Path:
    """Return where a service of this user keeps its state."""
    if os.geteuid() == 0:
        return Path("/var/lib/amqpd")
    return Path("~/.local/state/amqpd").expanduser()


_MIB: Final = 1024 * 1024
_SASL: Final = ("PLAIN", "AMQPLAIN", "EXTERNAL")
_LOGIN_FROM: Final = (
    "distinguished_name",
    "common_name",
    "subject_alternative_name",
)
_TLS_VERSIONS: Final = ("1.2", "1.3")

#: Defaults are RabbitMQ's but for: `host` (it listens everywhere), the smallest frame
#: (8192 since 4.1, which locks out older clients) and `max_message_size` (16 MiB since
#: 4.0; what ran on 3.x must run here). Without `memory.total_budget` it is a share of
#: the memory there is, like RabbitMQ's high watermark.
SETTINGS: Final = (
    Setting("data_dir", FilePath(), _default_data_dir()),
    Setting("cluster_name", Text(), f"amqpd@{os.uname().nodename}"),
    Setting("host", TextList(may_be_empty=False), ("localhost",)),
    Setting("port", Port(), 5672),
    Setting("frame_max", Integer(4096, 16 * _MIB), 131072),
    Setting("channel_max", Integer(0, 65535), 2047),
    Setting("channel_max_per_node", Integer(0, 1 << 40), None),
    Setting("connection_max", Integer(0, 1 << 40), None),
    Setting("consumer_max_per_channel", Integer(0, 1 << 40), None),
    Setting("vhost_max", Integer(0, 1 << 40), None),
    Setting("cluster_queue_limit", Integer(0, 1 << 40), None),
    Setting("cluster_exchange_limit", Integer(0, 1 << 40), None),
    Setting("heartbeat_s", Integer(0, 65535), 60),
    Setting("handshake_timeout_ms", Integer(100, 600_000), 10_000),
    Setting("max_message_size", Integer(1, 512 * _MIB), 128 * _MIB),
    Setting("default_user", Text(), "guest"),
    Setting("default_pass", Text(), "guest", is_secret=True),
    Setting("default_vhost", Text(), "/"),
    Setting("loopback_users", TextList(may_be_empty=True), ("guest",)),
    Setting("auth_mechanisms", TextList(may_be_empty=False, words=_SASL), _SASL),
    Setting("password_hashing", Choice(("argon2id", "sha256", "sha512")), "argon2id"),
    Setting("load_definitions", FilePath(), None),
    Setting("log.level", Choice(("debug", "info", "warning", "error")), "info"),
    Setting("log.format", Choice(("text", "json")), "text"),
    Setting("tls.port", Integer(0, 65535), 0),
    Setting("tls.cert", FilePath(), None),
    Setting("tls.key", FilePath(), None),
    Setting("tls.key_password", Text(), None, is_secret=True),
    Setting("tls.ca", FilePath(), None),
    Setting("tls.verify", Choice(("none", "peer")), "none"),
    Setting("tls.require_client_cert", Boolean(), False),
    Setting("tls.min_version", Choice(_TLS_VERSIONS), "1.2"),
    Setting("tls.max_version", Choice(_TLS_VERSIONS), "1.3"),
    Setting("tls.ciphers", TextList(may_be_empty=True), ()),
    Setting("tls.login_from", Choice(_LOGIN_FROM), "distinguished_name"),
    Setting("tls.login_san_type", Choice(("dns", "ip", "email", "uri")), "dns"),
    Setting("tls.login_san_index", Integer(0, 1000), 0),
    Setting("http.port", Integer(0, 65535), 15672),
    Setting("http.max_body_size", Integer(1024, 512 * _MIB), 20_000_000),
    Setting("http.cors_allow_origins", TextList(may_be_empty=True), ()),
    Setting("http.cors_max_age_s", Integer(0, 31_536_000), 1800),
    Setting("prometheus.port", Integer(0, 65535), 15692),
    Setting("compat.identity", Choice(("rabbitmq-3.13", "amqpd")), "rabbitmq-3.13"),
    Setting("compat.x_death", Choice(("keep", "drop")), "keep"),
    Setting("compat.relaxed_quorum_checks", Boolean(), False),
    Setting("store.segment_size", Integer(64 * 1024, 1024 * _MIB), 16 * _MIB),
    Setting("store.sync", Choice(("tick", "always", "off")), "tick"),
    Setting("store.sync_interval_ms", Integer(1, 1000), 25),
    Setting("store.garbage_percent", Integer(10, 90), 50),
    Setting("store.garbage_segments", Integer(2, 1000), 3),
    Setting("memory.cold_budget", Integer(_MIB, 1 << 40), 16 * _MIB),
    Setting("memory.total_budget", Integer(_MIB, 1 << 44), None),
    Setting("memory.high_watermark", Amount(), 0.6),
    Setting("memory.available", Amount(), None),
    Setting("disk.free_limit", Amount(), 50_000_000),
)

BY_KEY: Final = {setting.key: setting for setting in SETTINGS}
