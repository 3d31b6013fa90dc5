"""The effective configuration: defaults < a file < the environment < flags.

Every source is turned into the same thing, a list of (key, value, origin); the last one
of a key wins, and its origin is kept, so that `amqpd config show` can say where each
value came from and an error can name the file and line, the variable or the flag.

The file is TOML (`log.level` is `level` in `[log]`), or a rabbitmq.conf when its name
ends in `.conf`. Besides `AMQPD_*`, the environment variables of RabbitMQ's container
image are read. A name nobody knows is an error in our own file, where it is a typing
mistake, and a warning everywhere else.

Nothing here is read twice and nothing is global: `load` returns a frozen value, and
`launcher` hands each part of the broker what that part needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from amqpd.rabbitmq_conf import LineInvalid, read_rabbitmq_conf
from amqpd.settings import BY_KEY, SETTINGS, Port, Setting, Value, ValueInvalid

#: What RabbitMQ's container image takes from the environment; ours win over it.
_RABBITMQ_VARIABLES: Final = {
    "RABBITMQ_DEFAULT_USER": "default_user",
    "RABBITMQ_DEFAULT_PASS": "default_pass",
    "RABBITMQ_DEFAULT_VHOST": "default_vhost",
}
#: Variables that begin like ours and are no settings.
_OTHER_VARIABLES: Final = frozenset({"AMQPD_CONFIG", "AMQPD_PURE"})


class ConfigInvalid(Exception):
    """The configuration cannot be used; the text names the key and its origin."""


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that can be set, checked. The fields are the keys of SETTINGS."""

    data_dir: Path
    cluster_name: str
    host: tuple[str, ...]
    port: int | None
    frame_max: int
    channel_max: int
    channel_max_per_node: int | None
    connection_max: int | None
    consumer_max_per_channel: int | None
    vhost_max: int | None
    cluster_queue_limit: int | None
    cluster_exchange_limit: int | None
    heartbeat_s: int
    handshake_timeout_ms: int
    max_message_size: int
    default_user: str
    default_pass: str
    default_vhost: str
    loopback_users: tuple[str, ...]
    auth_mechanisms: tuple[str, ...]
    password_hashing: str
    load_definitions: Path | None
    log_level: str
    log_format: str
    tls_port: int
    tls_cert: Path | None
    tls_key: Path | None
    tls_key_password: str | None
    tls_ca: Path | None
    tls_verify: str
    tls_require_client_cert: bool
    tls_min_version: str
    tls_max_version: str
    tls_ciphers: tuple[str, ...]
    tls_login_from: str
    tls_login_san_type: str
    tls_login_san_index: int
    http_port: int
    http_max_body_size: int
    http_cors_allow_origins: tuple[str, ...]
    http_cors_max_age_s: int
    prometheus_port: int
    compat_identity: str
    compat_x_death: str
    compat_relaxed_quorum_checks: bool
    store_segment_size: int
    store_sync: str
    store_sync_interval_ms: int
    store_garbage_percent: int
    store_garbage_segments: int
    memory_cold_budget: int
    memory_total_budget: int | None
    memory_high_watermark: int | float
    memory_available: int | float | None
    disk_free_limit: int | float


@dataclass(frozen=True)
class Loaded:
    """A configuration, where each value came from, and what was passed over."""

    config: Config
    origins: dict[str, str]
    warnings: tuple[str, ...]

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Yield key, value and origin of every setting; secrets are covered."""
        for setting in SETTINGS:
            value: Value = getattr(self.config, setting.field)
            if value is None and isinstance(setting.kind, Port):
                value = "none"
            is_covered = setting.is_secret and value is not None
            shown = "********" if is_covered else _as_toml(value)
            yield setting.key, shown, self.origins[setting.key]


@dataclass(frozen=True)
class _Given:
    setting: Setting
    value: Value
    origin: str


def load(
    path: Path | None,
    environment: Mapping[str, str],
    flags: Mapping[str, str | list[str]],
) -> Loaded:
    """Return the effective configuration.

    Args:
        path: the configuration file; None reads what AMQPD_CONFIG names, if anything.
        environment: the process's environment variables.
        flags: what was said on the command line, by setting key.

    Raises:
        ConfigInvalid: a source cannot be read, or a value is not allowed.
    """
    if path is None and environment.get("AMQPD_CONFIG"):
        path = Path(environment["AMQPD_CONFIG"])
    warnings: list[str] = []
    given = [_Given(setting, setting.default, "default") for setting in SETTINGS]
    if path is not None:
        given += _from_file(path, environment, warnings)
    given += _from_environment(environment, warnings)
    given += _from_flags(flags)
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for each in given:
        values[each.setting.field] = each.value
        origins[each.setting.key] = each.origin
    config = Config(**values)
    if config.tls_cert is not None and not config.tls_port:
        origin = origins["tls.cert"]
        warnings.append(f"{origin}: tls.cert has no effect without tls.port")
    return Loaded(config, origins, tuple(warnings))


def _from_file(
    path: Path, environment: Mapping[str, str], warnings: list[str]
) -> list[_Given]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(f"{path}: cannot be read: {error}") from error
    if path.suffix == ".conf":
        return _from_rabbitmq_conf(path, text, environment, warnings)
    return list(_from_toml(path, text))


def _from_toml(path: Path, text: str) -> Iterator[_Given]:
    # Only here: most starts have no file, and it takes as long as all of argparse.
    import tomllib

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigInvalid(f"{path}: {error}") from error
    for key, value in _flatten(document):
        origin = f"{path}:{_line_of(key, text)}"
        setting = BY_KEY.get(key)
        if setting is None:
            raise ConfigInvalid(f"{origin}: there is no setting {key!r}")
        try:
            yield _Given(setting, setting.kind.from_toml(value), origin)
        except ValueInvalid as error:
            raise ConfigInvalid(f"{origin}: {key} {error}") from error


def _flatten(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict) and value:
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _line_of(key: str, text: str) -> int:
    """Return the line that sets `key`; tomllib keeps values, not places.

    A key that is written in a way this does not know (quoted, in an inline table) is
    said to be on the first line that has its last part.
    """
    table = ""
    last_part = key.rpartition(".")[2]
    fallback = 0
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[([^\[\]]+)\]", line)
        if header:
            table = re.sub(r"[\s\"']", "", header[1]) + "."
            if table == key + ".":
                return number
            continue
        name = re.sub(r"[\s\"']", "", line.partition("=")[0])
        if table + name == key:
            return number
        if not fallback and last_part in line:
            fallback = number
    return fallback or 1


def _from_rabbitmq_conf(
    path: Path, text: str, environment: Mapping[str, str], warnings: list[str]
) -> list[_Given]:
    try:
        conf = read_rabbitmq_conf(text, environment)
    except LineInvalid as error:
        raise ConfigInvalid(f"{path}:{error.line}: {error.key} {error}") from error
    for key, line in conf.unknown:
        warnings.append(f"{path}:{line}: {key} has no effect in amqpd")
    return [
        _from_text(BY_KEY[entry.key], entry.text, f"{path}:{entry.line}")
        for entry in conf.entries
    ]


def _from_environment(
    environment: Mapping[str, str], warnings: list[str]
) -> list[_Given]:
    names = dict(_RABBITMQ_VARIABLES)
    names.update((setting.variable, setting.key) for setting in SETTINGS)
    for name in sorted(environment):
        known = name in _OTHER_VARIABLES or name.removesuffix("_FILE") in names
        if name.startswith("AMQPD_") and name not in names and not known:
            warnings.append(f"{name}: there is no such setting")
    given = []
    for name, key in names.items():
        if name in environment:
            given.append(_from_text(BY_KEY[key], environment[name], name))
        elif BY_KEY[key].is_secret and name + "_FILE" in environment:
            # The way a secret is handed to a container.
            origin = name + "_FILE"
            text = _read_secret(Path(environment[origin]), origin)
            given.append(_from_text(BY_KEY[key], text, origin))
    return given


def _read_secret(path: Path, origin: str) -> str:
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(f"{origin}: {path} cannot be read: {error}") from error


def _from_flags(flags: Mapping[str, str | list[str]]) -> list[_Given]:
    return [
        _from_text(
            BY_KEY[key],
            said if isinstance(said, str) else ",".join(said),
            "--" + key.replace("_", "-").replace(".", "-"),
        )
        for key, said in flags.items()
    ]


def _from_text(setting: Setting, text: str, origin: str) -> _Given:
    try:
        return _Given(setting, setting.kind.from_text(text), origin)
    except ValueInvalid as error:
        # A flag or a variable of our own says which setting it is.
        raise ConfigInvalid(f"{origin}: {setting.key} {error}") from error


def _as_toml(value: Value) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_as_toml(item) for item in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    return '""' if value is None else f'"{value}"'
