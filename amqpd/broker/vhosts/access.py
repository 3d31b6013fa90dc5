"""Who asks: a user on a connection, and what this user may do to names.

Three rights per user and virtual host, each a pattern for names: *configure* (create
and delete), *write* (publish to, bind as a destination) and *read* (consume, bind as a
source). They are looked up each time, so that a change holds at once; the data plane
remembers verdicts with its routes. The default exchange is called `amq.default` here.
On a topic exchange the routing keys may be restricted too, for writing and for reading.
"""

from mypy_extensions import i64

from amqpd.auth.permissions import DEFAULT_EXCHANGE_NAME, Permission, PermissionTable
from amqpd.auth.users import User
from amqpd.broker.errors import AccessRefused, ResourceLocked
from amqpd.broker.queues.queue import Queue


class Access:
    """A user's rights in one virtual host, and the connection that exercises them."""

    def __init__(
        self,
        user: User,
        vhost_name: str,
        permissions: PermissionTable,
        connection: object,
    ) -> None:
        self.user = user
        self.vhost_name = vhost_name
        # Who owns the exclusive queues that are declared here.
        self.connection = connection
        # Set when the connection has ended: nothing may be made for it any more.
        self.is_closed = False
        self._permissions = permissions

    @property
    def permission(self) -> Permission | None:
        """The rights as they are now; None when they were all taken away."""
        return self._permissions.get(self.user.name, self.vhost_name)

    def permission_generation(self) -> i64:
        """A number that changes with every change of anybody's rights."""
        return self._permissions.generation

    def check_configure(self, kind: str, name: str) -> None:
        """Check the right to create or delete a queue or exchange.

        Raises:
            AccessRefused: the user has not got it.
        """
        permission = self.permission
        shown = _shown(kind, name)
        if permission is None or not permission.may_configure(shown):
            raise self._refused("configure", kind, shown)

    def check_write(self, kind: str, name: str) -> None:
        """Check the right to publish to it, or to bind it as a destination.

        Raises:
            AccessRefused: the user has not got it.
        """
        permission = self.permission
        shown = _shown(kind, name)
        if permission is None or not permission.may_write(shown):
            raise self._refused("write", kind, shown)

    def check_read(self, kind: str, name: str) -> None:
        """Check the right to consume from it, or to bind it as a source.

        Raises:
            AccessRefused: the user has not got it.
        """
        if not self.may_read(kind, name):
            raise self._refused("read", kind, _shown(kind, name))

    def may_read(self, kind: str, name: str) -> bool:
        """Whether the user may consume from it, or bind it as a source."""
        permission = self.permission
        return permission is not None and permission.may_read(_shown(kind, name))

    def check_topic_write(self, exchange: str, routing_key: bytes) -> None:
        """Check the right to publish to a topic exchange with this key.

        Raises:
            AccessRefused: the user has not got it.
        """
        permission = self._permissions.topic(self.user.name, self.vhost_name, exchange)
        if permission is not None:
            shown = routing_key.decode("utf-8", "replace")
            if not permission.may_write(shown):
                raise self._topic_refused("write", exchange, shown)

    def check_topic_read(self, exchange: str, routing_key: bytes) -> None:
        """Check the right to bind something to a topic exchange with this key.

        Raises:
            AccessRefused: the user has not got it.
        """
        permission = self._permissions.topic(self.user.name, self.vhost_name, exchange)
        if permission is not None:
            shown = routing_key.decode("utf-8", "replace")
            if not permission.may_read(shown):
                raise self._topic_refused("read", exchange, shown)

    def check_owner(self, queue: Queue) -> None:
        """Check that the queue is not exclusively another connection's.

        Raises:
            ResourceLocked: it is.
        """
        owner = queue.exclusive_owner
        if owner is not None and owner is not self.connection:
            raise locked(queue.name, self.vhost_name)

    def _refused(self, right: str, kind: str, name: str) -> AccessRefused:
        return AccessRefused(
            f"{right} access to {kind} '{name}' in vhost '{self.vhost_name}' "
            f"refused for user '{self.user.name}'"
        )

    def _topic_refused(self, right: str, exchange: str, key: str) -> AccessRefused:
        return AccessRefused(
            f"{right} access to topic '{key}' in exchange '{exchange}' in vhost "
            f"'{self.vhost_name}' refused for user '{self.user.name}'"
        )


def locked(queue_name: str, vhost_name: str) -> ResourceLocked:
    """The error for a queue that belongs to another connection."""
    return ResourceLocked(
        f"cannot obtain exclusive access to locked queue '{queue_name}' in vhost "
        f"'{vhost_name}'. It could be originally declared on another connection or "
        "the exclusive property value does not match that of the original declaration."
    )


def _shown(kind: str, name: str) -> str:
    if not name and kind == "exchange":
        return DEFAULT_EXCHANGE_NAME
    return name
