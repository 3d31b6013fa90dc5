"""The README's examples run, and its configuration is the default one."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import amqpd
from amqpd.config import load
from amqpd.settings import SETTINGS
from amqpd.testing import amqpd_server
from tests.conformance.compare import TABLE
from tests.conformance.differences_list import as_list, shown_in

README: Final = Path(__file__).parent.parent.parent / "README.md"
HOME: Final = str(Path(amqpd.__file__).resolve().parent.parent)
#: What differs from one machine to the next, or has no default.
OF_THE_MACHINE: Final = {
    *("data_dir", "cluster_name", "load_definitions"),
    "memory.total_budget",
    "memory.available",
    *("tls.cert", "tls.key", "tls.key_password", "tls.ca"),
    *("connection_max", "channel_max_per_node", "consumer_max_per_channel"),
    *("vhost_max", "cluster_queue_limit", "cluster_exchange_limit"),
}


def blocks(language: str) -> list[str]:
    text = README.read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A broker for all examples; the last one starts its own."""
    with amqpd_server() as own:
        yield own


@pytest.mark.parametrize("client", ["pika", "aio_pika", "amqpd.testing"])
def test_an_example_runs(client: str, url: str) -> None:
    (code,) = (
        block
        for block in blocks("python")
        if re.search(rf"^(import|from) {re.escape(client)}\b", block, re.MULTILINE)
    )
    code = re.sub(r"amqp://guest:guest@localhost(/%2F|/)", url, code)
    code = f"import sys; sys.path.append({HOME!r})\nrun_my_application = print\n{code}"
    ended = subprocess.run(
        [sys.executable, "-I", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert re.match(r"b'resize cat.png'|amqp://guest:guest@127", ended.stdout)


def test_the_configuration_names_every_setting_with_its_default(
    tmp_path: Path,
) -> None:
    (block,) = blocks("toml")
    path = tmp_path / "amqpd.toml"
    path.write_text(block)
    loaded = load(path, {}, {})
    unnamed = {key for key, origin in loaded.origins.items() if origin == "default"}
    assert unnamed == set()
    for setting in SETTINGS:
        if setting.key not in OF_THE_MACHINE:
            value = getattr(loaded.config, setting.field)
            assert value == setting.default, setting.key


def test_the_differences_are_those_of_the_table() -> None:
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))["difference"]
    assert shown_in(README.read_text(encoding="utf-8")) == as_list(rows)
