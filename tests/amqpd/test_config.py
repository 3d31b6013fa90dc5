"""Configuration: which source wins, and what an error says."""

from dataclasses import fields
from pathlib import Path

import pytest

from amqpd.config import Config, ConfigInvalid, load
from amqpd.settings import SETTINGS


def write(directory: Path, text: str, name: str = "amqpd.toml") -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


def test_every_setting_is_a_field_and_every_field_a_setting() -> None:
    names = [field.name for field in fields(Config)]
    assert names == [setting.field for setting in SETTINGS]


def test_without_any_source_everything_is_default() -> None:
    loaded = load(None, {}, {})
    assert loaded.config.port == 5672
    assert loaded.config.host == ("localhost",)
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.warnings == ()


def test_the_file_beats_the_default(tmp_path: Path) -> None:
    path = write(tmp_path, '# mine\nport = 1\n\n[log]\nlevel = "debug"\n')
    loaded = load(path, {}, {})
    assert loaded.config.port == 1
    assert loaded.config.log_level == "debug"
    assert loaded.origins["port"] == f"{path}:2"
    assert loaded.origins["log.level"] == f"{path}:5"


def test_the_environment_beats_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "port = 1\n")
    loaded = load(path, {"AMQPD_PORT": "2"}, {})
    assert loaded.config.port == 2
    assert loaded.origins["port"] == "AMQPD_PORT"


def test_a_flag_beats_the_environment() -> None:
    loaded = load(None, {"AMQPD_LOG_LEVEL": "debug"}, {"log.level": "error"})
    assert loaded.config.log_level == "error"
    assert loaded.origins["log.level"] == "--log-level"


def test_a_repeated_flag_is_a_list() -> None:
    loaded = load(None, {}, {"host": ["127.0.0.1", "10.0.0.1"]})
    assert loaded.config.host == ("127.0.0.1", "10.0.0.1")


def test_the_environment_may_name_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "port = 1\n")
    assert load(None, {"AMQPD_CONFIG": str(path)}, {}).config.port == 1


def test_the_variables_of_rabbitmqs_image_are_read() -> None:
    environment = {
        "RABBITMQ_DEFAULT_USER": "ann",
        "RABBITMQ_DEFAULT_PASS": "s3cret",
        "RABBITMQ_DEFAULT_VHOST": "shop",
    }
    config = load(None, environment, {}).config
    assert config.default_user == "ann"
    assert config.default_pass == "s3cret"
    assert config.default_vhost == "shop"


def test_our_variables_beat_rabbitmqs() -> None:
    environment = {"RABBITMQ_DEFAULT_USER": "ann", "AMQPD_DEFAULT_USER": "bob"}
    assert load(None, environment, {}).config.default_user == "bob"


@pytest.mark.parametrize("name", ["AMQPD_DEFAULT_PASS", "RABBITMQ_DEFAULT_PASS"])
def test_a_password_may_come_from_a_file(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, "s3cret\n", "password")
    loaded = load(None, {name + "_FILE": str(path)}, {})
    assert loaded.config.default_pass == "s3cret"
    assert loaded.origins["default_pass"] == name + "_FILE"
    assert loaded.warnings == ()


def test_a_password_file_that_is_missing_is_an_error() -> None:
    with pytest.raises(ConfigInvalid, match="AMQPD_DEFAULT_PASS_FILE: /nowhere"):
        load(None, {"AMQPD_DEFAULT_PASS_FILE": "/nowhere"}, {})


def test_a_variable_nobody_knows_is_a_warning() -> None:
    environment = {"AMQPD_PROT": "1", "AMQPD_PURE": "1", "PATH": "/bin"}
    loaded = load(None, environment, {})
    assert loaded.warnings == ("AMQPD_PROT: there is no such setting",)


def test_a_rabbitmq_conf_is_known_by_its_name(tmp_path: Path) -> None:
    text = "heartbeat = 30\nvm_memory_high_watermark_paging_ratio = 0.4\n"
    path = write(tmp_path, text, "rabbitmq.conf")
    loaded = load(path, {}, {})
    assert loaded.config.heartbeat_s == 30
    assert loaded.origins["heartbeat_s"] == f"{path}:1"
    complaint = "vm_memory_high_watermark_paging_ratio has no effect in amqpd"
    assert loaded.warnings == (f"{path}:2: {complaint}",)


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("a.toml", "port = 70000", "a.toml:1: port must be between 0 and 65535"),
        ("a.toml", 'port = "x"', "a.toml:1: port must be a whole number, not 'x'"),
        ("a.toml", "\nprot = 1", "a.toml:2: there is no setting 'prot'"),
        ("a.toml", "[log]\nlevle = 1", "a.toml:2: there is no setting 'log.levle'"),
        ("a.toml", "[lgo]", "a.toml:1: there is no setting 'lgo'"),
        ("a.toml", "log = {level = 1}", "a.toml:1: log.level must be one of"),
        ("a.toml", "\n'log'.level = 1", "a.toml:2: log.level must be one of"),
        ("a.toml", "port =", "a.toml: Invalid value"),
        ("a.conf", "heartbeat", "a.conf:1: heartbeat is not of the form"),
        ("a.conf", "\nheartbeat = x", "a.conf:2: heartbeat_s must be a whole number"),
    ],
)
def test_an_error_in_a_file_names_key_and_line(
    tmp_path: Path, name: str, text: str, complaint: str
) -> None:
    path = write(tmp_path, text, name)
    with pytest.raises(ConfigInvalid) as caught:
        load(path, {}, {})
    assert str(caught.value).startswith(f"{tmp_path}/{complaint}")


def test_an_error_in_a_variable_names_it() -> None:
    with pytest.raises(ConfigInvalid, match=r"^AMQPD_PORT: port must be"):
        load(None, {"AMQPD_PORT": "x"}, {})


def test_an_error_in_a_flag_names_it() -> None:
    with pytest.raises(ConfigInvalid, match=r"^--data-dir: data_dir must not be"):
        load(None, {}, {"data_dir": ""})


def test_a_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        load(tmp_path / "nowhere.toml", {}, {})


def test_the_rows_show_every_value_but_secrets() -> None:
    rows = {key: value for key, value, _ in load(None, {}, {}).rows()}
    assert rows["port"] == "5672"
    assert rows["host"] == '["localhost"]'
    assert rows["load_definitions"] == '""'
    assert "guest" not in rows["default_pass"]


def test_what_is_not_set_is_not_covered_and_no_port_is_none() -> None:
    loaded = load(None, {"AMQPD_TLS_REQUIRE_CLIENT_CERT": "true"}, {"port": "none"})
    shown = {key: value for key, value, _ in loaded.rows()}
    assert shown["tls.key_password"] == '""'
    assert shown["tls.require_client_cert"] == "true"
    assert shown["port"] == '"none"'
    assert loaded.config.port is None


def test_a_certificate_without_a_port_is_a_warning() -> None:
    flags: dict[str, str | list[str]] = {"tls.cert": "/c.pem"}
    warnings = load(None, {}, flags).warnings
    assert warnings == ("--tls-cert: tls.cert has no effect without tls.port",)
    assert load(None, {}, {**flags, "tls.port": "5671"}).warnings == ()
