"""RabbitMQ's definitions, taken apart: what a JSON export says, as our own objects.

    users, vhosts, permissions, topic_permissions      who
    parameters, global_parameters, policies            what is set
    exchanges, queues, bindings                        what is declared

Everything is checked here, before anything is changed; an error names the entry
(`queues[3]`) and its field. Files of old versions are understood: tags as one text with
commas, MD5 hashes without a name. Keys that nobody knows are passed over. A file of one
virtual host has what is set and declared, and goes into any. What exists already and
what becomes of the objects is not known here.
"""

from typing import Final, cast, final

from amqpd.auth.passwords import ALGORITHMS, DEFAULT_ALGORITHM
from amqpd.auth.permissions import PatternInvalid, Permission, TopicPermission
from amqpd.auth.users import User
from amqpd.broker.administration.parameter_changes import checked
from amqpd.broker.arguments import (
    QUEUE_TYPE,
    STREAM,
    Arguments,
    check_queue_arguments,
    with_default_type,
)
from amqpd.broker.errors import AmqpError
from amqpd.broker.exchange import Exchange, check_type, check_type_arguments
from amqpd.broker.policies.parameters import (
    GLOBAL,
    NO_VHOST,
    OPERATOR_POLICY,
    POLICY,
    USER_LIMITS,
    Parameter,
)
from amqpd.broker.policies.policy import ParameterInvalid
from amqpd.broker.policies.vhost_metadata import NO_METADATA
from amqpd.broker.vhosts.queue_changes import QueueProperties
from amqpd.wire.tables import Table, encode_table
from routing.binding import Binding

# RabbitMQ hashed with MD5 before this version, and did not say so.
FIRST_WITH_SHA256: Final = (3, 6)
SHORT_STRING_SIZE_MAX: Final = 255
MD5: Final = "rabbit_password_hashing_md5"


class DefinitionsInvalid(ValueError):
    """The definitions cannot be used; the text names the entry."""


@final
class QueueDefinition:
    """A queue that the definitions declare."""

    def __init__(
        self, vhost: str, name: str, properties: QueueProperties, has_type: bool
    ) -> None:
        self.vhost = vhost
        self.name = name
        self.properties = properties
        # Whether its type is said, and not that of its virtual host.
        self.has_type = has_type


@final
class Definitions:
    """A whole file."""

    def __init__(self) -> None:
        self.users: list[User] = []
        # Users whose password is in the file, not its hash.
        self.passwords: dict[str, str] = {}
        # By user; who is not in it keeps those that there are.
        self.user_limits: dict[str, object] = {}
        self.vhosts: list[tuple[str, dict[str, object]]] = []
        self.permissions: list[Permission] = []
        self.topic_permissions: list[TopicPermission] = []
        self.parameters: list[Parameter] = []
        self.exchanges: list[tuple[str, Exchange]] = []
        self.queues: list[QueueDefinition] = []
        # Streams, by virtual host and name: there are none here, so neither they nor
        # what is bound to them is made. A whole broker should not stay behind for them.
        self.left_out: dict[tuple[str, str], None] = {}
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
        _octets(self, key, value)
        return value

    def name(self, key: str, default: str | None = None) -> str:
        """Return a text that a client could say, too: in 255 octets."""
        value = self.text(key, default)
        if len(_octets(self, key, value)) > SHORT_STRING_SIZE_MAX:
            raise self.invalid(key, f"is longer than {SHORT_STRING_SIZE_MAX} octets")
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


def _octets(entry: Entry, key: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        # JSON can say halves of characters.
        raise entry.invalid(key, "is no Unicode") from None


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
        found.vhosts.append(_vhost(entry))
    for entry in root.entries("permissions"):
        found.permissions.append(_permission(entry))
    for entry in root.entries("topic_permissions"):
        found.topic_permissions.append(_topic_permission(entry))
    for entry in root.entries("global_parameters"):
        value = entry.fields.get("value")
        parameter = Parameter(NO_VHOST, GLOBAL, entry.name("name"), value)
        found.parameters.append(parameter)
    _read_vhost_part(root, None, found)
    return found


def read_vhost_definitions(parsed: object, vhost: str) -> Definitions:
    """Take a parsed JSON file apart for one virtual host.

    Raises:
        DefinitionsInvalid: as with a file of everything.
    """
    found = Definitions()
    _read_vhost_part(Entry("definitions", parsed), vhost, found)
    return found


def _read_vhost_part(root: Entry, vhost: str | None, found: Definitions) -> None:
    """Read what belongs to virtual hosts: to that one, or to those that are named."""
    for entry in root.entries("parameters"):
        component = entry.text("component")
        value = entry.fields.get("value")
        if component == OPERATOR_POLICY:
            value = _mended(value)
        found.parameters.append(
            _parameter(entry, _home(entry, vhost), component, value)
        )
    for entry in root.entries("policies"):
        found.parameters.append(
            _parameter(entry, _home(entry, vhost), POLICY, entry.fields)
        )
    for entry in root.entries("exchanges"):
        found.exchanges.append((_home(entry, vhost), _exchange(entry)))
    for entry in root.entries("queues"):
        home = _home(entry, vhost)
        if _is_stream(entry):
            found.left_out[home, entry.name("name")] = None
        else:
            found.queues.append(_queue(entry, home))
    for entry in root.entries("bindings"):
        home, binding = _home(entry, vhost), _binding(entry)
        if binding.to_exchange or (home, binding.destination) not in found.left_out:
            found.bindings.append((home, binding))


def _mended(policy: object) -> object:
    """Return an operator policy whose definition is an object.

    `rabbitmqctl export_definitions` of RabbitMQ 3.10 writes a list of pairs there.
    """
    if not isinstance(policy, dict) or not isinstance(policy.get("definition"), list):
        return policy
    try:
        return {**policy, "definition": dict(policy["definition"])}
    except (TypeError, ValueError):
        # Another list, which is refused as it is.
        return policy


def _home(entry: Entry, vhost: str | None) -> str:
    return entry.name("vhost") if vhost is None else vhost


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
    name = entry.name("name")
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
    if "limits" in entry.fields:
        limits = Parameter(NO_VHOST, USER_LIMITS, name, entry.fields["limits"])
        try:
            found.user_limits[name] = checked(limits).value
        except ParameterInvalid as error:
            raise entry.invalid("limits", str(error)) from None
    password_hash = entry.text("password_hash", "")
    found.users.append(User(name, password_hash, algorithm, tuple(tags)))


def _vhost(entry: Entry) -> tuple[str, dict[str, object]]:
    name = entry.name("name")
    if not name:
        raise entry.invalid("name", "must not be empty")
    fields = {key: value for key, value in entry.fields.items() if key != "name"}
    try:
        NO_METADATA.with_fields(fields)
    except ParameterInvalid as error:
        raise DefinitionsInvalid(f"{entry.place}: {error}") from None
    return name, fields


def _parameter(entry: Entry, vhost: str, component: str, value: object) -> Parameter:
    parameter = Parameter(vhost, component, entry.name("name"), value)
    try:
        return checked(parameter)
    except ParameterInvalid as error:
        raise DefinitionsInvalid(f"{entry.place}: {error}") from None


def _permission(entry: Entry) -> Permission:
    try:
        return Permission(
            entry.name("user"),
            entry.name("vhost"),
            entry.text("configure"),
            entry.text("write"),
            entry.text("read"),
        )
    except PatternInvalid as error:
        raise DefinitionsInvalid(f"{entry.place}: {error}") from None


def _topic_permission(entry: Entry) -> TopicPermission:
    try:
        return TopicPermission(
            entry.name("user"),
            entry.name("vhost"),
            entry.name("exchange"),
            entry.text("write"),
            entry.text("read"),
        )
    except PatternInvalid as error:
        raise DefinitionsInvalid(f"{entry.place}: {error}") from None


def _exchange(entry: Entry) -> Exchange:
    exchange = Exchange(
        entry.name("name"),
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


def _is_stream(entry: Entry) -> bool:
    kind = entry.arguments().table.get(QUEUE_TYPE, entry.fields.get("type"))
    return kind == STREAM


def _queue(entry: Entry, vhost: str) -> QueueDefinition:
    name = entry.name("name")
    arguments = entry.arguments()
    said = entry.fields.get("type")
    if isinstance(said, str):
        arguments = with_default_type(arguments, said)
    try:
        check_queue_arguments(arguments, f"queue '{name}' in vhost '{vhost}'")
    except AmqpError as error:
        raise entry.invalid("arguments", error.text) from None
    properties = QueueProperties(
        entry.flag("durable"), False, entry.flag("auto_delete"), arguments
    )
    has_type = isinstance(said, str) or QUEUE_TYPE in arguments.table
    return QueueDefinition(vhost, name, properties, has_type)


def _binding(entry: Entry) -> Binding:
    kind = entry.text("destination_type")
    if kind not in ("queue", "exchange"):
        raise entry.invalid("destination_type", "must be queue or exchange")
    arguments = entry.arguments()
    return Binding(
        entry.name("source"),
        entry.name("destination"),
        kind == "exchange",
        entry.name("routing_key", "").encode(),
        arguments.table,
        arguments.canonical(),
    )
