"""Any definitions: what is exported is what was imported, and goes in again unseen."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from amqpd.broker.broker import Broker
from amqpd.broker.definitions import load_definitions
from amqpd.http.api import definition_export as export
from tests.support.control_plane import ControlPlane

NAMES = st.sampled_from(["a", "b", "ä.b", "c c", "%2F"])
VHOSTS = ("/", "v/1")
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "x-text": st.text(max_size=5),
        "x-number": st.integers(-(1 << 62), 1 << 62),
        "x-flag": st.booleans(),
        "x-list": st.lists(st.one_of(st.integers(0, 300), st.text(max_size=3))),
    },
)
DEFINITIONS = st.fixed_dictionaries(
    {"max-length": st.integers(0, 1 << 40)},
    optional={
        "overflow": st.sampled_from(["drop-head", "reject-publish"]),
        "message-ttl": st.integers(0, 1 << 30),
    },
)


QUEUE = st.fixed_dictionaries(
    {
        "durable": st.booleans(),
        "auto_delete": st.booleans(),
        "type": st.just("classic"),
        "arguments": ARGUMENTS,
    }
)
EXCHANGE = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["topic", "fanout", "direct"]),
        "durable": st.booleans(),
        "auto_delete": st.booleans(),
        "internal": st.booleans(),
        "arguments": ARGUMENTS,
    }
)
POLICY = st.fixed_dictionaries(
    {
        "pattern": st.sampled_from(["", "^a", "b$"]),
        "apply-to": st.sampled_from(["all", "queues", "exchanges"]),
        "definition": DEFINITIONS,
        "priority": st.integers(-3, 3),
    }
)
PARAMETER = st.fixed_dictionaries({"component": st.just("shovel"), "value": ARGUMENTS})


@st.composite
def vhost_parts(draw: st.DrawFn, vhost: str) -> dict[str, list[dict[str, Any]]]:
    home = {"vhost": vhost}

    def named(kind: st.SearchStrategy[dict[str, Any]]) -> list[dict[str, Any]]:
        names = sorted(draw(st.sets(NAMES, max_size=4)))
        return [{**home, "name": name, **draw(kind)} for name in names]

    queues, exchanges = named(QUEUE), named(EXCHANGE)
    sources = [*[one["name"] for one in exchanges], "amq.topic"]
    ends = [("queue", one["name"]) for one in queues]
    ends += [("exchange", name) for name in [*sources, "amq.fanout"]]
    wanted = st.tuples(st.sampled_from(sources), st.sampled_from(ends), NAMES)
    bindings = [
        {
            **home,
            "source": source,
            "destination_type": kind,
            "destination": name,
            "routing_key": key,
            "arguments": draw(ARGUMENTS),
        }
        for source, (kind, name), key in sorted(draw(st.sets(wanted, max_size=5)))
    ]
    return {
        "queues": queues,
        "exchanges": exchanges,
        "bindings": bindings,
        "policies": named(POLICY),
        "parameters": named(PARAMETER),
    }


def exported(broker: Broker) -> dict[str, list[str]]:
    """All sections, each in an order of its own."""
    vhosts = [broker.vhosts[name] for name in sorted(broker.vhosts)]
    sections = {
        "users": export.users(broker),
        "vhosts": map(export.vhost_facts, vhosts),
        "permissions": export.permissions(broker),
        "parameters": export.parameters(broker, [vhost.name for vhost in vhosts]),
        "policies": export.policies(vhosts),
        "queues": export.queues(vhosts),
        "exchanges": export.exchanges(vhosts),
        "bindings": export.bindings(vhosts),
    }
    return {
        name: sorted(json.dumps(item, sort_keys=True) for item in items)
        for name, items in sections.items()
    }


def parsed(sections: dict[str, list[str]]) -> dict[str, list[Any]]:
    return {name: [json.loads(item) for item in sections[name]] for name in sections}


@settings(max_examples=12)
@given(vhost_parts(VHOSTS[0]), vhost_parts(VHOSTS[1]))
def test_what_comes_out_is_what_went_in(
    first: dict[str, list[Any]], second: dict[str, list[Any]]
) -> None:
    file = {name: first[name] + second[name] for name in first}
    whole: dict[str, Any] = {**file, "vhosts": [{"name": name} for name in VHOSTS]}
    with TemporaryDirectory() as directory:
        plane = ControlPlane(Path(directory, "one"))
        load_definitions(plane.broker, whole)
        out = exported(plane.broker)
        for name, items in file.items():
            assert out[name] == sorted(
                json.dumps(item, sort_keys=True) for item in items
            )
        load_definitions(plane.broker, parsed(out))
        assert exported(plane.broker) == out
        other = ControlPlane(Path(directory, "two"))
        load_definitions(other.broker, parsed(out))
        assert exported(other.broker) == out
        plane.bench.close()
        other.bench.close()
