r"""Permissions: what a user may do to the names of a virtual host.

Three regular expressions per user and virtual host, compiled once. They are searched
for anywhere in the name (`re:run` in RabbitMQ), and the empty one means `^$`: nothing
has an empty name, so it permits nothing. The default exchange is named `amq.default`
here. A user without an entry may not even open the virtual host.

Two more may be set per user, virtual host and topic exchange: which routing keys may be
published with (write) and bound with (read). Without them all may. `{username}` and
`{vhost}` in them stand for the names, taken as they are: a dot in a name is a dot.

RabbitMQ's expressions are PCRE, ours are Python's. What people write in permissions is
the same in both but for two things, which are translated: `\Z` and `$` accept a
trailing newline in PCRE, which no name has (`\Z` in Python is PCRE's `\z`), and `\z`
and `\h` do not exist here. What still does not compile is refused when it is set.
"""

import re
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

#: How the default exchange is called in permissions.
DEFAULT_EXCHANGE_NAME: Final = "amq.default"

_NOTHING: Final = "^$"

#: PCRE's escapes that Python writes differently; an escaped backslash is kept whole.
_PCRE_ESCAPES: Final = re.compile(r"\\[\s\S]")
_TRANSLATED: Final[dict[str, str]] = {r"\z": r"\Z", r"\h": r"[ \t]"}


class PatternInvalid(ValueError):
    """A permission's regular expression does not compile."""


@final
class Permission:
    """The rights of one user in one virtual host.

    Raises:
        PatternInvalid: one of the three expressions does not compile.
    """

    def __init__(
        self, user: str, vhost: str, configure: str, write: str, read: str
    ) -> None:
        self.user = user
        self.vhost = vhost
        self.configure = configure
        self.write = write
        self.read = read
        self._configure = _compile(configure)
        self._write = _compile(write)
        self._read = _compile(read)

    def may_configure(self, name: str) -> bool:
        """Whether the user may create and delete what is called so."""
        return self._configure.search(name) is not None

    def may_write(self, name: str) -> bool:
        """Whether the user may publish to it, or bind it as a destination."""
        return self._write.search(name) is not None

    def may_read(self, name: str) -> bool:
        """Whether the user may consume from it, purge it, or bind it as a source."""
        return self._read.search(name) is not None


@final
class TopicPermission:
    """The routing keys of one topic exchange that a user may use.

    Raises:
        PatternInvalid: one of the two expressions does not compile.
    """

    def __init__(
        self, user: str, vhost: str, exchange: str, write: str, read: str
    ) -> None:
        self.user = user
        self.vhost = vhost
        self.exchange = exchange
        self.write = write
        self.read = read
        self._write = _compile(_expand(write, user, vhost))
        self._read = _compile(_expand(read, user, vhost))

    def may_write(self, routing_key: str) -> bool:
        """Whether the user may publish with this routing key."""
        return self._write.search(routing_key) is not None

    def may_read(self, routing_key: str) -> bool:
        """Whether the user may bind something with this routing key."""
        return self._read.search(routing_key) is not None


@final
class PermissionTable:
    """All permissions. `generation` counts changes, for caches of verdicts."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], Permission] = {}
        self._topics: dict[tuple[str, str, str], TopicPermission] = {}
        self.generation: i64 = 0

    def put(self, permission: Permission) -> None:
        """Set the rights of that user in that virtual host."""
        self._entries[(permission.user, permission.vhost)] = permission
        self.generation += 1

    def remove(self, user: str, vhost: str) -> None:
        """Take all rights away; does nothing when there are none."""
        if self._entries.pop((user, vhost), None) is not None:
            self.generation += 1

    def get(self, user: str, vhost: str) -> Permission | None:
        """Return the rights of that user in that virtual host, if any."""
        return self._entries.get((user, vhost))

    def remove_user(self, user: str) -> None:
        """Take away everything that a user may do."""
        self._keep(lambda one: one.user != user)

    def remove_vhost(self, vhost: str) -> None:
        """Take away everything that anybody may do in a virtual host."""
        self._keep(lambda one: one.vhost != vhost)

    def _keep(self, is_kept: Callable[[Permission | TopicPermission], bool]) -> None:
        entries, topics = self._entries, self._topics
        self._entries = {key: one for key, one in entries.items() if is_kept(one)}
        self._topics = {key: one for key, one in topics.items() if is_kept(one)}
        self.generation += 1

    def entries(self) -> list[Permission]:
        """Return all permissions, sorted by virtual host and user."""
        return sorted(self._entries.values(), key=_order)

    def put_topic(self, permission: TopicPermission) -> None:
        """Set the routing keys of that user on that exchange."""
        key = (permission.user, permission.vhost, permission.exchange)
        self._topics[key] = permission
        self.generation += 1

    def remove_topic(self, user: str, vhost: str, exchange: str) -> None:
        """Allow all routing keys again; does nothing when they are."""
        if self._topics.pop((user, vhost, exchange), None) is not None:
            self.generation += 1

    def topic(self, user: str, vhost: str, exchange: str) -> TopicPermission | None:
        """Return what is set for that user and exchange, if anything is."""
        return self._topics.get((user, vhost, exchange))

    def topic_entries(self) -> list[TopicPermission]:
        """Return all topic permissions, sorted by virtual host, user and exchange."""
        return sorted(self._topics.values(), key=_topic_order)


def _order(permission: Permission) -> tuple[str, str]:
    return permission.vhost, permission.user


def _topic_order(permission: TopicPermission) -> tuple[str, str, str]:
    return permission.vhost, permission.user, permission.exchange


def _expand(pattern: str, user: str, vhost: str) -> str:
    # RabbitMQ puts names in unescaped, so a user called `.*` may use any key there.
    expanded = pattern.replace("{username}", re.escape(user))
    return expanded.replace("{vhost}", re.escape(vhost))


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return an expression of RabbitMQ's, as the one of ours that means the same.

    Raises:
        PatternInvalid: it does not compile.
    """
    translated = _PCRE_ESCAPES.sub(_translate, pattern)
    try:
        return re.compile(translated)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternInvalid(
            f"invalid regular expression '{pattern}': {error}"
        ) from None


def _compile(pattern: str) -> re.Pattern[str]:
    return compile_pattern(pattern or _NOTHING)


def _translate(match: re.Match[str]) -> str:
    escape = match.group()
    return _TRANSLATED.get(escape, escape)
