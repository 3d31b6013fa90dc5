"""The script `rabbitmqadmin` that comes with RabbitMQ's server package, unchanged.

It is looked for where Debian and RabbitMQ's own packages leave it; on a machine without
it there is nothing to try. RABBITMQADMIN names another place.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from glob import glob
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

MakeName = Callable[[str], str]
Run = Callable[..., Any]

PLACES: Final = (
    "/usr/bin/rabbitmqadmin",
    "/usr/local/bin/rabbitmqadmin",
    "/usr/lib/rabbitmq/lib/*/plugins/rabbitmq_management-*/priv/www/cli/rabbitmqadmin",
)


def scripts() -> list[str]:
    """The first script that is there, if any is; the newer tool in Rust is another."""
    places = [place for pattern in PLACES for place in sorted(glob(pattern))]
    named = os.environ.get("RABBITMQADMIN")
    for place in [named] if named else places:
        with Path(place).open("rb") as file:
            if b"python" in file.readline():
                return [place]
    return []


@pytest.fixture
def run(script: str, management_url: str) -> Run:
    """Run the script with some words and return what it prints, as JSON if it is."""
    parts = urlsplit(management_url)
    command = [sys.executable, "-W", "ignore", script]
    command += ["-H", str(parts.hostname), "-P", str(parts.port)]

    def run_one(*words: str, fails: bool = False) -> Any:
        done = subprocess.run(
            [*command, "-f", "raw_json", *words],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode != 0) == fails, (words, done.stdout, done.stderr)
        if fails:
            return done.stdout + done.stderr
        try:
            return json.loads(done.stdout)
        except ValueError:
            return done.stdout.strip()

    return run_one


@pytest.fixture
def vhost(run: Run, make_name: MakeName) -> Iterator[str]:
    """A virtual host that is deleted afterwards."""
    name = make_name("vhost")
    assert run("declare", "vhost", f"name={name}") == "vhost declared"
    yield name
    assert run("delete", "vhost", f"name={name}") == "vhost deleted"


with_script = pytest.mark.parametrize("script", scripts())


@with_script
def test_it_shows_the_broker(run: Run) -> None:
    assert run("show", "overview")[0]["rabbitmq_version"]
    assert run("list", "nodes")[0]["running"]
    assert "guest" in [one["name"] for one in run("list", "users")]
    for kind in ("connections", "channels", "consumers", "parameters", "vhost_limits"):
        assert isinstance(run("list", kind), list)


@with_script
def test_it_declares_publishes_gets_and_purges(run: Run, vhost: str) -> None:
    at = ("-V", vhost)
    run(
        *at,
        "declare",
        "queue",
        "name=q",
        "durable=true",
        'arguments={"x-max-length":9}',
    )
    run(*at, "declare", "exchange", "name=x", "type=topic")
    run(*at, "declare", "binding", "source=x", "destination=q", "routing_key=a.#")
    refused = run(*at, "declare", "queue", "name=q", "durable=false", fails=True)
    sent = run(*at, "publish", "exchange=x", "routing_key=a.b", "payload=hello")
    lost = run(*at, "publish", "exchange=x", "routing_key=b", "payload=hello")
    [kept] = run(*at, "get", "queue=q")
    [taken] = run(*at, "get", "queue=q", "ackmode=ack_requeue_false")
    run(*at, "publish", "routing_key=q", "payload=more")
    purged = run(*at, "purge", "queue", "name=q")
    assert "inequivalent arg" in refused
    assert (sent, lost) == ("Message published", "Message published but NOT routed")
    assert (kept["payload"], kept["redelivered"]) == ("hello", False)
    assert (taken["payload"], taken["redelivered"]) == ("hello", True)
    assert purged == "queue purged"
    assert [one["name"] for one in run(*at, "list", "queues", "name")] == ["q"]
    assert run(*at, "list", "queues")[0]["messages"] == 0
    listed = run(*at, "list", "bindings", "source", "routing_key")
    assert {"source": "x", "routing_key": "a.#"} in listed
    run(
        *at,
        "delete",
        "binding",
        "source=x",
        "destination_type=queue",
        "destination=q",
        "properties_key=a.%23",
    )
    assert run(*at, "delete", "queue", "name=q") == "queue deleted"
    assert run(*at, "delete", "exchange", "name=x") == "exchange deleted"


@with_script
def test_it_manages_users_and_rights(run: Run, vhost: str, make_name: MakeName) -> None:
    user = make_name("user")
    run("declare", "user", f"name={user}", "password=p", "tags=management")
    rights = ("configure=.*", "write=.*", "read=^r")
    run("declare", "permission", f"vhost={vhost}", f"user={user}", *rights)
    listed = [one for one in run("list", "permissions") if one["user"] == user]
    assert [one["read"] for one in listed] == ["^r"]
    deleted = run("delete", "permission", f"vhost={vhost}", f"user={user}")
    assert deleted == "permission deleted"
    assert run("delete", "user", f"name={user}") == "user deleted"


@with_script
def test_it_sets_policies_and_parameters(run: Run, vhost: str) -> None:
    at = ("-V", vhost)
    definition = 'definition={"max-length":3}'
    run(*at, "declare", "policy", "name=p", "pattern=^q", definition, "apply-to=queues")
    run(*at, "declare", "queue", "name=q")
    [queue] = run(*at, "list", "queues", "name", "policy")
    [policy] = run(*at, "list", "policies")
    assert queue == {"name": "q", "policy": "p"}
    assert policy["definition"] == {"max-length": 3}
    assert run(*at, "delete", "policy", "name=p") == "policy deleted"
    assert run(*at, "list", "policies") == []


@with_script
def test_it_exports_and_imports_definitions(
    run: Run, vhost: str, tmp_path: Path
) -> None:
    at = ("-V", vhost)
    run(*at, "declare", "queue", "name=q", "durable=true")
    run(*at, "declare", "exchange", "name=x", "type=fanout")
    run(*at, "declare", "binding", "source=x", "destination=q")
    file = tmp_path / "definitions.json"
    run(*at, "export", str(file))
    run(*at, "delete", "queue", "name=q")
    run(*at, "delete", "exchange", "name=x")
    run(*at, "import", str(file))
    listed = run(*at, "list", "bindings", "source", "destination")
    assert {"source": "x", "destination": "q"} in listed


@with_script
def test_it_tells_what_went_wrong(run: Run) -> None:
    assert "Access refused" in run("-p", "wrong", "list", "queues", fails=True)
    assert "Not found" in run("-V", "no-such-vhost", "list", "queues", fails=True)
