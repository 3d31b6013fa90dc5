"""Settings: what each kind takes, and how it says no."""

from pathlib import Path

import pytest

from amqpd.settings import (
    BY_KEY,
    SETTINGS,
    Amount,
    Boolean,
    Choice,
    FilePath,
    Integer,
    Kind,
    Port,
    Text,
    TextList,
    Value,
    ValueInvalid,
)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Integer(0, 10), "7", 7),
        (Integer(0, 100_000), "65_000", 65000),
        (Text(), "guest", "guest"),
        (Choice(("text", "json")), "json", "json"),
        (TextList(may_be_empty=False), "a, b,", ("a", "b")),
        (TextList(may_be_empty=True), "", ()),
        (FilePath(), "/tmp/x", Path("/tmp/x")),
        (FilePath(), "~/x", Path.home() / "x"),
        (TextList(may_be_empty=True, words=("a", "b")), "b,a", ("b", "a")),
        (Port(), "0", 0),
        (Port(), "none", None),
        (Boolean(), "true", True),
        (Boolean(), "false", False),
        (Amount(), "1024", 1024),
        (Amount(), "0.6", 0.6),
        (Amount(), "1GiB", 1 << 30),
        (Amount(), "1.5 gb", 1_500_000_000),
        (Amount(), "2k", 2048),
    ],
)
def test_a_kind_reads_text(kind: Kind, text: str, value: Value) -> None:
    assert kind.from_text(text) == value


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        (Integer(0, 10), 7, 7),
        (TextList(may_be_empty=False), ["a", "b"], ("a", "b")),
        (TextList(may_be_empty=False), "a,b", ("a,b",)),
        (FilePath(), "/tmp/x", Path("/tmp/x")),
        (Port(), 5672, 5672),
        (Port(), "none", None),
        (Boolean(), True, True),
        (Amount(), 1024, 1024),
        (Amount(), 0.6, 0.6),
        (Amount(), "50MB", 50_000_000),
    ],
)
def test_a_kind_reads_toml(kind: Kind, written: object, value: Value) -> None:
    assert kind.from_toml(written) == value


@pytest.mark.parametrize(
    ("kind", "text", "complaint"),
    [
        (Integer(0, 10), "11", "must be between 0 and 10, not 11"),
        (Integer(0, 10), "seven", "must be a whole number, not 'seven'"),
        (Text(), "", "must not be empty"),
        (Choice(("text", "json")), "xml", "must be one of text, json, not 'xml'"),
        (TextList(may_be_empty=False), " , ", "must not be empty"),
        (
            TextList(may_be_empty=True, words=("a", "b")),
            "a,c",
            "must be one of a, b, not 'c'",
        ),
        (FilePath(), "", "must not be empty"),
        (Port(), "65536", "must be between 0 and 65535, not 65536"),
        (Boolean(), "yes", "must be true or false, not 'yes'"),
        (
            Amount(),
            "1 pint",
            (
                "must be octets (with a unit, like 512MiB) or a share (like 0.6), "
                "not '1 pint'"
            ),
        ),
    ],
)
def test_a_kind_says_what_it_takes(kind: Kind, text: str, complaint: str) -> None:
    with pytest.raises(ValueInvalid) as caught:
        kind.from_text(text)
    assert str(caught.value) == complaint


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (Integer(0, 10), True),
        (Integer(0, 10), "7"),
        (Text(), 7),
        (Port(), True),
        (Port(), "5672"),
        (Boolean(), 1),
        (Boolean(), "true"),
        (Choice(("text",)), 7),
        (Amount(), True),
        (Amount(), -1),
        (TextList(may_be_empty=True), [7]),
        (TextList(may_be_empty=True), {"a": 1}),
        (FilePath(), ["x"]),
    ],
)
def test_a_kind_refuses_another_type(kind: Kind, written: object) -> None:
    with pytest.raises(ValueInvalid, match="must be"):
        kind.from_toml(written)


def test_every_default_is_a_value_its_own_kind_takes() -> None:
    for setting in SETTINGS:
        if setting.default is None:
            continue
        written: object = setting.default
        if isinstance(written, tuple):
            written = list(written)
        if isinstance(written, Path):
            written = str(written)
        assert setting.kind.from_toml(written) == setting.default, setting.key


def test_the_names_of_a_setting_follow_from_its_key() -> None:
    setting = BY_KEY["log.level"]
    assert setting.field == "log_level"
    assert setting.variable == "AMQPD_LOG_LEVEL"
