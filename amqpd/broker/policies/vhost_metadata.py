"""What is known of a virtual host besides its name and what is in it.

    description, tags            for people
    default_queue_type           the type of queues that are declared without one
    tracing                      whether the firehose is on
    protected_from_deletion      whether it must be let go of before it can be deleted

It is kept as JSON in the catalogue, in the form in which definitions have it: old ones
have the first three in the virtual host itself, new ones in its `metadata` too.
"""

from typing import Final, cast, final

from amqpd.broker.arguments import CLASSIC, QUORUM
from amqpd.broker.erlang_term import erlang_term
from amqpd.broker.policies.policy import ParameterInvalid

# What stands in the place of a type when none is set.
UNDEFINED: Final = "undefined"

_QUEUE_TYPES: Final = (CLASSIC, QUORUM)


@final
class VhostMetadata:
    """The metadata of one virtual host; it is replaced, never changed."""

    def __init__(
        self,
        description: str = "",
        tags: tuple[str, ...] = (),
        default_queue_type: str | None = None,
        tracing: bool = False,
        protected_from_deletion: bool = False,
    ) -> None:
        self.description = description
        self.tags = tags
        self.default_queue_type = default_queue_type
        self.tracing = tracing
        self.protected_from_deletion = protected_from_deletion

    def fields(self) -> dict[str, object]:
        """Return all of it as JSON has it."""
        return {
            **self.described(),
            "tracing": self.tracing,
            "protected_from_deletion": self.protected_from_deletion,
        }

    def described(self) -> dict[str, object]:
        """Return what RabbitMQ calls the metadata."""
        fields: dict[str, object] = {
            "description": self.description,
            "tags": list(self.tags),
        }
        if self.default_queue_type is not None:
            fields["default_queue_type"] = self.default_queue_type
        return fields

    def with_fields(self, fields: dict[str, object]) -> "VhostMetadata":
        """Return it with what somebody says of it; what is not said stays.

        Raises:
            ParameterInvalid: something cannot be.
        """
        nested = fields.get("metadata")
        said = {**nested, **fields} if isinstance(nested, dict) else fields
        return VhostMetadata(
            _text(said.get("description", self.description)),
            _tags(said.get("tags", list(self.tags))),
            _queue_type(said.get("default_queue_type", self.default_queue_type)),
            _flag("tracing", said.get("tracing", self.tracing)),
            _flag(
                "protected_from_deletion",
                said.get("protected_from_deletion", self.protected_from_deletion),
            ),
        )


NO_METADATA: Final = VhostMetadata()


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ParameterInvalid(f"description should be a text: {erlang_term(value)}")
    return value


def _tags(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(tag.strip() for tag in value.split(",") if tag.strip())
    if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
        raise ParameterInvalid("tags should be a list of texts")
    return tuple(cast(list[str], value))


def _queue_type(value: object) -> str | None:
    if value in (None, "", UNDEFINED):
        return None
    if not isinstance(value, str) or value not in _QUEUE_TYPES:
        shown = erlang_term(value)
        raise ParameterInvalid(f"unsupported default queue type {shown}")
    return value


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ParameterInvalid(f"{name} should be true or false: {erlang_term(value)}")
    return value
