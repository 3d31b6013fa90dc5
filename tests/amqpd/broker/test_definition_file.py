"""Definitions taken apart: what every kind of entry means, and what is refused."""

import pytest

from amqpd.broker.definition_file import (
    Definitions,
    DefinitionsInvalid,
    read_definitions,
)


def refusal(section: str, *entries: object) -> str:
    """Why a file with these entries cannot be used."""
    with pytest.raises(DefinitionsInvalid) as caught:
        read_definitions({section: list(entries)})
    return str(caught.value)


def users(*entries: object, version: object = None) -> Definitions:
    """A file with these users."""
    return read_definitions({"rabbit_version": version, "users": list(entries)})


QUEUE = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False}
EXCHANGE = {"name": "x", "vhost": "/", "type": "topic", "durable": True}
BINDING = {
    "source": "x",
    "vhost": "/",
    "destination": "q",
    "destination_type": "queue",
    "routing_key": "a.#",
    "arguments": {},
}


def test_an_empty_file_defines_nothing() -> None:
    found = read_definitions({"product_name": "RabbitMQ"})
    assert found.users == []
    assert found.queues == []


def test_a_file_must_be_an_object() -> None:
    with pytest.raises(DefinitionsInvalid, match="definitions is not an object"):
        read_definitions([])


def test_a_section_must_be_a_list_of_objects() -> None:
    with pytest.raises(DefinitionsInvalid, match="queues is not a list"):
        read_definitions({"queues": {}})
    assert refusal("queues", QUEUE, 5) == "queues[1] is not an object"


@pytest.mark.parametrize("tags", [["administrator", "own"], "administrator, own"])
def test_tags_are_a_list_or_a_text(tags: object) -> None:
    (user,) = users({"name": "joe", "password_hash": "h", "tags": tags}).users
    assert (user.name, user.password_hash) == ("joe", "h")
    assert user.tags == ("administrator", "own")


@pytest.mark.parametrize(
    ("version", "algorithm"),
    [
        ("3.5.8", "rabbit_password_hashing_md5"),
        ("3.6.0", "rabbit_password_hashing_sha256"),
        ("4.1.0", "rabbit_password_hashing_sha256"),
        (None, "rabbit_password_hashing_sha256"),
        ("4", "rabbit_password_hashing_sha256"),
        ("new.est", "rabbit_password_hashing_sha256"),
    ],
)
def test_an_algorithm_without_a_name_is_the_one_of_that_time(
    version: object, algorithm: str
) -> None:
    (user,) = users({"name": "joe", "password_hash": "h"}, version=version).users
    assert user.algorithm == algorithm


@pytest.mark.parametrize("digest", ["sha256", "sha512", "md5"])
def test_every_algorithm_of_rabbitmq_is_known(digest: str) -> None:
    algorithm = f"rabbit_password_hashing_{digest}"
    (user,) = users({"name": "joe", "hashing_algorithm": algorithm}).users
    assert (user.algorithm, user.password_hash) == (algorithm, "")


def test_a_password_in_plain_words_is_noticed() -> None:
    assert users({"name": "joe", "password": "secret"}).passwords == {"joe": "secret"}


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({}, "users[0].name: must be a text"),
        ({"name": 5}, "users[0].name: must be a text"),
        ({"name": "joe", "tags": 5}, "users[0].tags: must be a list of texts"),
        ({"name": "joe", "tags": [5]}, "users[0].tags: must be a list of texts"),
        (
            {"name": "joe", "hashing_algorithm": "rot13"},
            "users[0].hashing_algorithm: unknown algorithm 'rot13'",
        ),
    ],
)
def test_a_wrong_user_is_refused(entry: object, told: str) -> None:
    assert refusal("users", entry) == told


def test_what_is_noted_about_a_virtual_host_is_kept() -> None:
    found = read_definitions({"vhosts": [{"name": "v", "tags": ["a"]}]})
    assert found.vhosts == [("v", {"tags": ["a"]})]


def test_permissions_are_patterns() -> None:
    entry = {
        "user": "joe",
        "vhost": "/",
        "configure": "^c",
        "write": "^w",
        "read": "^r",
    }
    (permission,) = read_definitions({"permissions": [entry]}).permissions
    assert permission.may_configure("c")
    assert permission.may_write("w")
    assert permission.may_read("r")
    assert refusal("permissions", {**entry, "write": "("}).startswith(
        "permissions[0]: invalid regular expression '('"
    )


def test_topic_permissions_are_read() -> None:
    entry = {"user": "u", "vhost": "/", "exchange": "x", "write": "w", "read": "r"}
    (found,) = read_definitions({"topic_permissions": [entry]}).topic_permissions
    assert (found.user, found.vhost, found.exchange) == ("u", "/", "x")
    assert (found.write, found.read) == ("w", "r")


def operator_policy(definition: object) -> dict[str, object]:
    value = {"pattern": "^q", "definition": definition, "apply-to": "queues"}
    return {"vhost": "/", "component": "operator_policy", "name": "o", "value": value}


def test_an_operator_policy_may_have_pairs_as_rabbitmqctl_exports_them() -> None:
    parameter = operator_policy([["max-length", 5], ["expires", 1000]])
    found = read_definitions({"parameters": [parameter]})
    [value] = [one.value for one in found.parameters]
    assert isinstance(value, dict)
    assert value["definition"] == {"max-length": 5, "expires": 1000}


@pytest.mark.parametrize("definition", [[1], [["a"]], ["ab", 3], [[[], 1]]])
def test_an_operator_policy_with_another_list_is_refused(definition: object) -> None:
    text = refusal("parameters", operator_policy(definition))
    assert text.startswith("parameters[0]: definition should be an object")


def test_parameters_and_policies_are_values() -> None:
    shovel = {"component": "shovel", "vhost": "/", "name": "s", "value": {"a": 1}}
    policy = {
        "vhost": "/",
        "name": "p",
        "pattern": "^q",
        "apply-to": "queues",
        "definition": {"ha-mode": "all"},
        "priority": 3,
    }
    found = read_definitions(
        {
            "parameters": [shovel],
            "global_parameters": [{"name": "cluster_name", "value": "c"}],
            "policies": [policy],
        }
    )
    kept = [(one.vhost, one.component, one.name) for one in found.parameters]
    assert kept == [
        ("", "", "cluster_name"),
        ("/", "shovel", "s"),
        ("/", "policy", "p"),
    ]
    assert [one.value for one in found.parameters] == [
        "c",
        {"a": 1},
        {
            "pattern": "^q",
            "apply-to": "queues",
            "definition": {"ha-mode": "all"},
            "priority": 3,
        },
    ]


@pytest.mark.parametrize(
    ("section", "entry", "told"),
    [
        (
            "policies",
            {"vhost": "/", "name": "p", "pattern": "", "definition": {}},
            "policies[0]: no policy provided",
        ),
        (
            "parameters",
            {
                "vhost": "/",
                "component": "vhost-limits",
                "name": "limits",
                "value": {"max-queues": "x"},
            },
            'parameters[0]: max-queues should be a number, actually was <<"x">>',
        ),
        ("users", {"name": "joe", "limits": 5}, "users[0].limits: user-limits should"),
        ("vhosts", {"name": ""}, "vhosts[0].name: must not be empty"),
        ("vhosts", {"name": "v", "tags": 5}, "vhosts[0]: tags should be a list"),
        ("vhosts", {"name": "v" * 256}, "vhosts[0].name: is longer than 255 octets"),
        ("users", {"name": "\ud800"}, "users[0].name: is no Unicode"),
        (
            "queues",
            {"vhost": "/", "name": "\u00e9" * 128},
            "queues[0].name: is longer than 255 octets",
        ),
    ],
)
def test_what_cannot_be_set_is_refused(
    section: str, entry: dict[str, object], told: str
) -> None:
    assert refusal(section, entry).startswith(told)


def test_limits_of_a_user_that_are_not_said_are_not_there() -> None:
    said = {"name": "ann", "limits": {"max-channels": 2}}
    assert users({"name": "joe"}, said).user_limits == {"ann": {"max-channels": 2}}


def test_exchanges_are_read() -> None:
    entry = {**EXCHANGE, "internal": True, "arguments": {"alternate-exchange": "y"}}
    ((vhost, exchange),) = read_definitions({"exchanges": [entry]}).exchanges
    assert (vhost, exchange.name, exchange.type_name) == ("/", "x", "topic")
    assert (exchange.durable, exchange.auto_delete, exchange.internal) == (
        True,
        False,
        True,
    )
    assert exchange.alternate == "y"


def test_queues_are_read() -> None:
    arguments = {"x-queue-type": "quorum", "x-delivery-limit": 5}
    (queue,) = read_definitions({"queues": [{**QUEUE, "arguments": arguments}]}).queues
    assert (queue.vhost, queue.name) == ("/", "q")
    assert (queue.properties.durable, queue.properties.auto_delete) == (True, False)
    assert queue.properties.arguments.table == arguments


@pytest.mark.parametrize(
    ("kind", "to_exchange"), [("queue", False), ("exchange", True)]
)
def test_bindings_are_read(kind: str, to_exchange: bool) -> None:
    entry = {**BINDING, "destination_type": kind}
    ((vhost, binding),) = read_definitions({"bindings": [entry]}).bindings
    assert (vhost, binding.source, binding.destination) == ("/", "x", "q")
    assert (binding.to_exchange, binding.key) == (to_exchange, b"a.#")


@pytest.mark.parametrize(
    ("section", "entry", "told"),
    [
        ("queues", {"name": "q"}, "queues[0].vhost: must be a text"),
        (
            "queues",
            {**QUEUE, "durable": 1},
            "queues[0].durable: must be true or false",
        ),
        (
            "queues",
            {**QUEUE, "arguments": 5},
            "queues[0].arguments: must be an object",
        ),
        (
            "queues",
            {**QUEUE, "arguments": {"k" * 256: 1}},
            "queues[0].arguments: key is longer than 255 octets",
        ),
        (
            "queues",
            {**QUEUE, "arguments": {"a": 2**70}},
            "queues[0].arguments: ",
        ),
        (
            "queues",
            {**QUEUE, "arguments": {"x-queue-type": "strange"}},
            "queues[0].arguments: invalid arg 'x-queue-type' for queue 'q' in",
        ),
        (
            "exchanges",
            {**EXCHANGE, "type": "x-delayed"},
            "exchanges[0].type: unknown exchange type 'x-delayed'",
        ),
        (
            "exchanges",
            {**EXCHANGE, "type": "x-delayed-message"},
            "exchanges[0].arguments: Invalid argument, 'x-delayed-type' must be",
        ),
        (
            "topic_permissions",
            {"user": "u", "vhost": "/", "exchange": "x", "write": "(", "read": ""},
            "topic_permissions[0]: invalid regular expression '('",
        ),
        (
            "exchanges",
            {
                **EXCHANGE,
                "type": "x-consistent-hash",
                "arguments": {"hash-property": "app_id"},
            },
            "exchanges[0].arguments: Unsupported property: app_id",
        ),
        (
            "bindings",
            {**BINDING, "destination_type": "topic"},
            "bindings[0].destination_type: must be queue or exchange",
        ),
    ],
)
def test_what_cannot_be_declared_is_refused(
    section: str, entry: object, told: str
) -> None:
    assert refusal(section, entry).startswith(told)


@pytest.mark.parametrize(
    "said", [{"type": "stream"}, {"arguments": {"x-queue-type": "stream"}}]
)
def test_streams_are_left_out_with_their_bindings_and_nothing_else(
    said: dict[str, object],
) -> None:
    to_queue = {**BINDING, "destination": "s", "destination_type": "queue"}
    found = read_definitions(
        {
            "vhosts": [{"name": "/"}, {"name": "v"}],
            "queues": [QUEUE, {**QUEUE, "name": "s", **said}],
            "bindings": [
                to_queue,
                {**to_queue, "destination_type": "exchange"},
                {**to_queue, "vhost": "v"},
            ],
        }
    )
    assert list(found.left_out) == [("/", "s")]
    assert [queue.name for queue in found.queues] == ["q"]
    assert [(vhost, one.to_exchange) for vhost, one in found.bindings] == [
        ("/", True),
        ("v", False),
    ]
