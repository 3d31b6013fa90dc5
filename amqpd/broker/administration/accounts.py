"""Users, virtual hosts and rights, changed while the broker runs.

    check > rows > commit > memory > `done`

Nobody sees a change before it is durable, but for one: a virtual host that is being
deleted is not found any more, and nothing can be declared in it, so that no row of its
own comes after those that are removed. Connections to it end when it is gone.

Changes reach the disk in the order in which they were made, and memory in the same
order. What refers to somebody who has gone meanwhile goes as well.
"""

from collections.abc import Callable
from typing import Final, final

from amqpd.auth.permissions import Permission, PermissionTable, TopicPermission
from amqpd.auth.users import User, UserRegistry
from amqpd.broker.administration.parameter_changes import ParameterChanges
from amqpd.broker.catalogue.catalogue import Catalogue, CommitWaiter, Statement
from amqpd.broker.catalogue.statements import (
    delete_permission,
    delete_topic_permission,
    delete_user,
    delete_vhost,
    put_permission,
    put_topic_permission,
    put_user,
    put_vhost,
)
from amqpd.broker.clients.connections import Connections
from amqpd.broker.errors import (
    ConnectionForced,
    PreconditionFailed,
    ResourceError,
)
from amqpd.broker.events import Events
from amqpd.broker.policies.vhost_metadata import VhostMetadata
from amqpd.broker.vhosts.exchange_changes import Done
from amqpd.broker.vhosts.vhost import VirtualHost
from amqpd.wire.tables import Table

ALL: Final = ".*"


@final
class Change(CommitWaiter):
    """Statements on their way to the disk, and what follows."""

    def __init__(
        self, apply: Callable[[], None], undo: Callable[[], None] | None, done: Done
    ) -> None:
        self._apply = apply
        self._undo = undo
        self._done = done

    def on_committed(self, row_ids: list[int]) -> None:
        """They are durable."""
        self._apply()
        self._done(None)

    def on_commit_failed(self, error: Exception) -> None:
        """Nothing has changed."""
        if self._undo is not None:
            self._undo()
        self._done(ResourceError(f"the change could not be stored: {error}"))


@final
class Accounts:
    """Changes of who there is and what they may do.

    `add_vhost` makes a virtual host in memory, or says what is known of it now.
    With virtual hosts and users go the parameters and limits that are theirs.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        users: UserRegistry,
        permissions: PermissionTable,
        vhosts: dict[str, VirtualHost],
        connections: Connections,
        add_vhost: Callable[[str, VhostMetadata], None],
        parameters: ParameterChanges,
        events: Events,
    ) -> None:
        self._events = events
        self._catalogue = catalogue
        self._users = users
        self._permissions = permissions
        self._vhosts = vhosts
        self._connections = connections
        self._add_vhost = add_vhost
        self._parameters = parameters

    # -- users ----------------------------------------------------------------

    def put_user(self, user: User, done: Done) -> None:
        """Add a user, or change the one of that name."""
        statements = put_user(user.name, user.password_hash, user.algorithm, user.tags)
        self._stage(statements, lambda: self._adopt_user(user), done)

    def _adopt_user(self, user: User) -> None:
        before = self._users.get(user.name)
        self._users.put(user)
        events = self._events
        if before is None:
            events.tell("user.created", {"name": user.name})
        elif before.password_hash != user.password_hash:
            cleared = "user.password.cleared"
            changed = "user.password.changed"
            key = changed if user.password_hash else cleared
            events.tell(key, {"name": user.name})
        if (before.tags if before is not None else ()) != user.tags:
            headers: Table = {"name": user.name, "tags": list(user.tags)}
            events.tell("user.tags.set", headers)

    def delete_users(self, names: list[str], now_ms: int, done: Done) -> None:
        """Delete users with all their rights; their connections end."""
        statements: list[Statement] = []
        for name in names:
            statements += delete_user(name)
        self._stage(statements, lambda: self._forget_users(names, now_ms), done)

    def _forget_users(self, names: list[str], now_ms: int) -> None:
        for name in names:
            self._users.remove(name)
            self._events.tell("user.deleted", {"name": name})
            self._permissions.remove_user(name)
            self._parameters.forget_user(name)
            error = ConnectionForced(f"user '{name}' is deleted")
            for connection in self._connections.of_user(name):
                connection.close(error, now_ms)

    # -- rights ---------------------------------------------------------------

    def put_permission(self, permission: Permission, done: Done) -> None:
        """Give a user rights in a virtual host."""
        user, vhost = permission.user, permission.vhost
        statements = put_permission(
            user, vhost, permission.configure, permission.write, permission.read
        )
        self._stage(statements, lambda: self._grant(permission), done)

    def _grant(self, permission: Permission) -> None:
        user, vhost = permission.user, permission.vhost
        if self._are_there(user, vhost):
            self._permissions.put(permission)
            headers: Table = {
                "user": user,
                "vhost": vhost,
                "configure": permission.configure,
                "write": permission.write,
                "read": permission.read,
            }
            self._events.tell("permission.created", headers)
        else:
            self._catalogue.stage_errand(delete_permission(user, vhost))

    def delete_permission(self, user: str, vhost: str, done: Done) -> None:
        """Take a user's rights in a virtual host away."""
        self._stage(
            delete_permission(user, vhost),
            lambda: self._forget_permission(user, vhost),
            done,
        )

    def _forget_permission(self, user: str, vhost: str) -> None:
        self._permissions.remove(user, vhost)
        self._events.tell("permission.deleted", {"user": user, "vhost": vhost})

    def put_topic_permission(self, permission: TopicPermission, done: Done) -> None:
        """Say which routing keys of an exchange a user may use."""
        statements = put_topic_permission(
            permission.user,
            permission.vhost,
            permission.exchange,
            permission.write,
            permission.read,
        )
        self._stage(statements, lambda: self._grant_topic(permission), done)

    def _grant_topic(self, permission: TopicPermission) -> None:
        user, vhost = permission.user, permission.vhost
        if self._are_there(user, vhost):
            self._permissions.put_topic(permission)
            headers: Table = {
                "user": user,
                "vhost": vhost,
                "exchange": permission.exchange,
                "write": permission.write,
                "read": permission.read,
            }
            self._events.tell("topic.permission.created", headers)
        else:
            statements = delete_topic_permission(user, vhost, permission.exchange)
            self._catalogue.stage_errand(statements)

    def delete_topic_permissions(
        self, user: str, vhost: str, exchanges: list[str], done: Done
    ) -> None:
        """Let a user use all routing keys of some exchanges again."""
        statements: list[Statement] = []
        for exchange in exchanges:
            statements += delete_topic_permission(user, vhost, exchange)

        self._stage(
            statements, lambda: self._forget_topics(user, vhost, exchanges), done
        )

    def _forget_topics(self, user: str, vhost: str, exchanges: list[str]) -> None:
        for exchange in exchanges:
            self._permissions.remove_topic(user, vhost, exchange)
            headers: Table = {"user": user, "vhost": vhost, "exchange": exchange}
            self._events.tell("topic.permission.deleted", headers)

    def _are_there(self, user: str, vhost: str) -> bool:
        return self._users.get(user) is not None and vhost in self._vhosts

    # -- virtual hosts --------------------------------------------------------

    def put_vhost(
        self, name: str, metadata: VhostMetadata, creator: User | None, done: Done
    ) -> None:
        """Add a virtual host, or change what is known of it.

        Who creates it (if anybody is named) gets all rights in it.
        """
        statements = put_vhost(name, metadata.fields())
        rights = None
        there = self._vhosts.get(name)
        if there is None:
            try:
                limits = self._parameters.admission.node_limits
                limits.check_vhosts(name, len(self._vhosts))
            except PreconditionFailed as error:
                done(error)
                return
        if creator is not None and there is None:
            rights = Permission(creator.name, name, ALL, ALL, ALL)
            statements += put_permission(creator.name, name, ALL, ALL, ALL)
        self._stage(statements, lambda: self._open(name, metadata, rights, there), done)

    def _open(
        self,
        name: str,
        metadata: VhostMetadata,
        rights: Permission | None,
        before: VirtualHost | None,
    ) -> None:
        if before is not None and self._vhosts.get(name) is not before:
            # It is being deleted: its rows follow.
            return
        is_new = name not in self._vhosts
        self._add_vhost(name, metadata)
        if is_new:
            headers: Table = {
                "name": name,
                "description": metadata.description,
                "tags": list(metadata.tags),
            }
            self._events.tell("vhost.created", headers)
        if rights is not None:
            self._grant(rights)

    def delete_vhost(self, vhost: VirtualHost, now_ms: int, done: Done) -> None:
        """Delete a virtual host with all that is in it.

        When it is done its rows are gone and its connections are closed. What it has
        in memory is dropped by `VirtualHost.drop_queues`, in slices.
        """
        gone = ConnectionForced(f"vhost '{vhost.name}' is deleted")
        del self._vhosts[vhost.name]
        vhost.topology.line.close(gone)
        self._catalogue.stage(
            delete_vhost(vhost.name),
            Change(
                lambda: self._close(vhost, gone, now_ms),
                lambda: self._reopen(vhost),
                done,
            ),
        )

    def _close(self, vhost: VirtualHost, error: ConnectionForced, now_ms: int) -> None:
        vhost.topology.is_gone = True
        topologies = vhost.topology.surroundings.topologies
        if topologies.get(vhost.name) is vhost.topology:
            del topologies[vhost.name]
        for connection in self._connections.in_vhost(vhost.name):
            connection.close(error, now_ms)
        self._events.tell("vhost.deleted", {"name": vhost.name})
        self._permissions.remove_vhost(vhost.name)
        self._parameters.forget_vhost(vhost.name)

    def _reopen(self, vhost: VirtualHost) -> None:
        self._vhosts[vhost.name] = vhost
        vhost.topology.line.reopen()

    def _stage(
        self, statements: list[Statement], apply: Callable[[], None], done: Done
    ) -> None:
        self._catalogue.stage(statements, Change(apply, None, done))
