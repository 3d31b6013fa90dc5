"""RabbitMQ's definitions, taken apart: what a JSON export says, as our own objects.

    users, vhosts, permissions, topic_permissions      who
    exchanges, queues, bindings                        what is declared
    parameters, global_parameters, policies            kept as they are, with a warning

Everything is checked here, before anything is changed; an error names the entry
(`queues[3]`) and its field. Files of old versions are understood: tags as one text with
commas, MD5 hashes without a name. Keys that nobody knows are passed over. What exists
already and what becomes of the objects is not known here.
"""

from typing import Final, cast, final

from amqpd.auth.passwords import ALGORITHMS, DEFAULT_ALGORITHM
from amqpd.auth.permissions import PatternInvalid, Permission, TopicPermission
from amqpd.auth.users import User
from amqpd.broker.arguments import Arguments, check_queue_arguments
from amqpd.broker.errors import AmqpError
from amqpd.broker.exchange import Exchange, check_type, check_type_arguments
from amqpd.broker.queue_changes import QueueProperties
from amqpd.wire.tables import Table, encode_table
from routing.binding import Binding

# RabbitMQ hashed with MD5 before this version, and did not say so.
FIRST_WITH_SHA256: Final = (3, 6)
MD5: Final = "rabbit_password_hashing_md5"

POLICY: Final = "policy"


class DefinitionsInvalid(ValueError):
    """The definitions cannot be used; the text names the entry."""


@final
class Parameter:
    """A runtime parameter or a policy, as it was written."""

    def __init__(self, vhost: str, component: str, name: str, value: object) -> None:
        self.vhost = vhost
        self.component = component
        self.name = name
        self.value = value


@final
class QueueDefinition:
    """A queue that the definitions declare."""

    def __init__(self, vhost: str, name: str, properties: QueueProperties) -> None:
        self.vhost = vhost
        self.name = name
        self.properties = properties


@final
class Definitions:
    """A whole file."""

    def __init__(self) -> None:
        self.users: list[User] = []
        # Users whose password is in the file, not its hash.
        self.passwords: dict[str, str] = {}
        self.vhosts: list[tuple[str, object]] = []
        self.permissions: list[Permission] = []
        self.topic_permissions: list[TopicPermission] = []
        self.parameters: list[Parameter] = []
        self.exchanges: list[tuple[str, Exchange]] = []
        self.queues: list[QueueDefinition] = []
        self.bindings: list[tuple[str, Binding]] = []


@final
class Entry:
    """One JSON object of the file, and what it is called in errors."""

    def __init__(self, place: str, fields: object) -> None:
        if not isinstance(fields, dict):
            raise DefinitionsInvalid(f"{place} is not an object")
        self.place = place
        self.fields = cast(dict[str, object], fields)

    def entries(self, key: str) -> list["Entry"]:
        """Return the objects of a list; none when it is not there."""
        values = self.fields.get(key, [])
        if not isinstance(values, list):
            raise DefinitionsInvalid(f"{key} is not a list")
        return [Entry(f"{key}[{index}]", fields) for index, fields in enumerate(values)]

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text that must be there, unless it has a default."""
        value = self.fields.get(key, default)
        if not isinstance(value, str):
            raise self.invalid(key, "must be a text")
        return value

    def flag(self, key: str) -> bool:
        """Return a flag; not there is false."""
        value = self.fields.get(key, False)
        if not isinstance(value, bool):
            raise self.invalid(key, "must be true or false")
        return value

    def arguments(self) -> Arguments:
        """Return the arguments as a table."""
        value = self.fields.get("arguments") or {}
        if not isinstance(value, dict):
            raise self.invalid("arguments", "must be an object")
        table = cast(Table, value)
        try:
            return Arguments(table, encode_table(table))
        except (ValueError, OverflowError) as error:
            raise self.invalid("arguments", str(error)) from None

    def invalid(self, key: str, what: str) -> DefinitionsInvalid:
        """The error for a field."""
        return DefinitionsInvalid(f"{self.place}.{key}: {what}")


def read_definitions(parsed: object) -> Definitions:
    """Take a parsed JSON file apart.

    Raises:
        DefinitionsInvalid: something in it is not as RabbitMQ writes it, or cannot be
            declared here.
    """
    root = Entry("definitions", parsed)
    found = Definitions()
    algorithm = _implied_algorithm(root)
    for entry in root.entries("users"):
        _read_user(entry, algorithm, found)
    for entry in root.entries("vhosts"):
        found.vhosts.append((entry.text("name"), _vhost_metadata(entry)))
    for entry in root.entries("permissions"):
        found.permissions.append(_permission(entry))
    for entry in root.entries("topic_permissions"):
        found.topic_permissions.append(_topic_permission(entry))
    _read_parameters(root, found)
    for entry in root.entries("exchanges"):
        found.exchanges.append((entry.text("vhost"), _exchange(entry)))
    for entry in root.entries("queues"):
        found.queues.append(_queue(entry))
    for entry in root.entries("bindings"):
        found.bindings.append((entry.text("vhost"), _binding(entry)))
    return found


def _implied_algorithm(root: Entry) -> str:
    """What hashed the passwords of users that do not say it."""
    version = root.fields.get("rabbit_version", root.fields.get("rabbitmq_version"))
    if not isinstance(version, str):
        return DEFAULT_ALGORITHM
    parts = version.split(".")
    if len(parts) < 2 or not (parts[0].isdecimal() and parts[1].isdecimal()):
        return DEFAULT_ALGORITHM
    is_old = (int(parts[0]), int(parts[1])) < FIRST_WITH_SHA256
    return MD5 if is_old else DEFAULT_ALGORITHM


def _read_user(entry: Entry, implied: str, found: Definitions) -> None:
    name = entry.text("name")
    algorithm = entry.text("hashing_algorithm", implied)
    if algorithm not in ALGORITHMS:
        raise entry.invalid("hashing_algorithm", f"unknown algorithm '{algorithm}'")
    tags = entry.fields.get("tags", [])
    if isinstance(tags, str):
        tags = [tag.strip() for tag in tags.split(",") if tag.strip()]
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise entry.invalid("tags", "must be a list of texts")
    if "password" in entry.fields:
        found.passwords[name] = entry.text("password")
    password_hash = entry.text("password_hash", "")
    found.users.append(User(name, password_hash, algorithm, tuple(tags)))


def _vhost_metadata(entry: Entry) -> object:
    return {key: value for key, value in entry.fields.items() if key != "name"}


def _permission(entry: Entry) -> Permission:
    try:
        return Permission(
            entry.text("user"),
            entry.text("vhost"),
            entry.text("configure"),
            entry.text("write"),
            entry.text("read"),
        )
    except PatternInvalid as error:
        raise DefinitionsInvalid(f"{entry.place}: {error}") from None


def _topic_permission(entry: Entry) -> TopicPermission:
    try:
        return TopicPermission(
            entry.text("user"),
            entry.text("vhost"),
            entry.text("exchange"),
            entry.text("write"),
            entry.text("read"),
        )
    except PatternInvalid as error:
        raise DefinitionsInvalid(f"{entry.place}: {error}") from None


def _read_parameters(root: Entry, found: Definitions) -> None:
    for entry in root.entries("parameters"):
        found.parameters.append(
            Parameter(
                entry.text("vhost"),
                entry.text("component"),
                entry.text("name"),
                entry.fields.get("value"),
            )
        )
    for entry in root.entries("global_parameters"):
        name = entry.text("name")
        found.parameters.append(Parameter("", "", name, entry.fields.get("value")))
    for entry in root.entries("policies"):
        found.parameters.append(
            Parameter(entry.text("vhost"), POLICY, entry.text("name"), entry.fields)
        )


def _exchange(entry: Entry) -> Exchange:
    exchange = Exchange(
        entry.text("name"),
        entry.text("type"),
        entry.flag("durable"),
        entry.flag("auto_delete"),
        entry.flag("internal"),
        entry.arguments(),
    )
    try:
        check_type(exchange.type_name)
    except AmqpError as error:
        raise entry.invalid("type", error.text) from None
    try:
        check_type_arguments(exchange)
    except AmqpError as refusal:
        raise entry.invalid("arguments", refusal.text) from None
    return exchange


def _queue(entry: Entry) -> QueueDefinition:
    vhost = entry.text("vhost")
    name = entry.text("name")
    arguments = entry.arguments()
    try:
        check_queue_arguments(arguments, f"queue '{name}' in vhost '{vhost}'")
    except AmqpError as error:
        raise entry.invalid("arguments", error.text) from None
    properties = QueueProperties(
        entry.flag("durable"), False, entry.flag("auto_delete"), arguments
    )
    return QueueDefinition(vhost, name, properties)


def _binding(entry: Entry) -> Binding:
    kind = entry.text("destination_type")
    if kind not in ("queue", "exchange"):
        raise entry.invalid("destination_type", "must be queue or exchange")
    arguments = entry.arguments()
    return Binding(
        entry.text("source"),
        entry.text("destination"),
        kind == "exchange",
        entry.text("routing_key", "").encode(),
        arguments.table,
        arguments.canonical(),
    )
