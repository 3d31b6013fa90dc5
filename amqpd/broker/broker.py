"""The broker: virtual hosts, users, and what came back from the disk.

It is opened in the order in which things need each other: the rows of the catalogue
become virtual hosts with their exchanges, queues and bindings, then the messages that
recovery found go into their queues. A directory without anything gets RabbitMQ's
defaults: one virtual host, one administrator. Clients enter by `open_vhost`.

Nothing here waits: commits and syncs are steps that somebody with threads runs.
"""

import logging
from collections.abc import Callable
from typing import Final, cast, final

from amqpd.auth.passwords import DEFAULT_ALGORITHM, hash_password, salt_size
from amqpd.auth.permissions import Permission, PermissionTable, TopicPermission
from amqpd.auth.users import User, UserRegistry
from amqpd.broker.administration.accounts import Accounts
from amqpd.broker.administration.parameter_changes import ParameterChanges
from amqpd.broker.alarms import Alarms
from amqpd.broker.arguments import Arguments
from amqpd.broker.catalogue.catalogue import Catalogue, ExchangeRow, QueueRow
from amqpd.broker.catalogue.statements import put_permission, put_user, put_vhost
from amqpd.broker.clients.connections import Connections
from amqpd.broker.clients.secret_checks import SecretChecks
from amqpd.broker.errors import NotAllowed
from amqpd.broker.exchange import Exchange
from amqpd.broker.policies.policy import ParameterInvalid
from amqpd.broker.policies.vhost_metadata import NO_METADATA, VhostMetadata
from amqpd.broker.ports import DurabilityWaiter, Step
from amqpd.broker.queues.dispatch import Dispatch
from amqpd.broker.queues.durability import Durability
from amqpd.broker.queues.pager import MIB, MemoryBudgets, Pager
from amqpd.broker.queues.survey import Survey
from amqpd.broker.upkeep import Upkeep
from amqpd.broker.vhosts.event_exchange import EventExchange
from amqpd.broker.vhosts.session import Session
from amqpd.broker.vhosts.topology import Surroundings
from amqpd.broker.vhosts.vhost import VirtualHost
from amqpd.wire.tables import decode_table
from routing.binding import Binding
from store.message_store import MessageStore
from store.metadata import MetadataStep
from store.replay import RecoveredQueue

logger = logging.getLogger(__name__)

#: Where the exchange of events is.
EVENT_VHOST: Final = "/"

ADMINISTRATOR: Final = "administrator"

#: Memory that messages may take, where nobody says.
BUDGETS: Final = MemoryBudgets(16 * MIB, 1024 * MIB)


@final
class Defaults:
    """What a blank data directory starts with."""

    def __init__(
        self, user: str = "guest", password: str = "guest", vhost: str = "/"
    ) -> None:
        self.user = user
        self.password = password
        self.vhost = vhost


@final
class Broker:
    """All virtual hosts, and who may enter them."""

    def __init__(
        self,
        catalogue: Catalogue,
        pager: Pager,
        random_octets: Callable[[int], bytes],
    ) -> None:
        self.catalogue = catalogue
        self.pager = pager
        self.store: MessageStore[DurabilityWaiter] = pager.store
        self.dispatch = Dispatch()
        self.alarms = Alarms()
        self.users = UserRegistry()
        self.permissions = PermissionTable()
        self.vhosts: dict[str, VirtualHost] = {}
        self.random_octets = random_octets
        # What hashes new passwords.
        self.password_algorithm = DEFAULT_ALGORITHM
        self.secrets = SecretChecks(random_octets)
        self._surroundings = Surroundings(
            catalogue, pager, self.dispatch, random_octets
        )
        self.events = self._surroundings.events
        self.alarms.on_change = self._note_alarm
        self.connections = Connections(self.events)
        self.admission = self._surroundings.admission
        self.traffic = self._surroundings.traffic
        self.churn = self._surroundings.churn
        self.changes = ParameterChanges(
            catalogue, self.vhosts, self.users, self.admission, self.events
        )
        self.parameters = self.changes.parameters
        self.accounts = Accounts(
            catalogue,
            self.users,
            self.permissions,
            self.vhosts,
            self.connections,
            self.add_vhost,
            self.changes,
            self.events,
        )
        stores = [pager.store]
        if pager.paging is not None:
            stores.append(pager.paging)
        self.upkeep = Upkeep(stores)
        self.timers = self._surroundings.timers
        self.survey = Survey(pager.store, self._surroundings.queues_by_id.get)
        self.durability = Durability(
            pager, self._surroundings.queues_by_id.get, self._surroundings.ledger
        )

    @staticmethod
    def open(
        catalogue: Catalogue,
        store: MessageStore[DurabilityWaiter],
        recovered: dict[int, RecoveredQueue],
        random_octets: Callable[[int], bytes],
        paging: MessageStore[DurabilityWaiter] | None = None,
        budgets: MemoryBudgets = BUDGETS,
    ) -> "Broker":
        """Make a broker of what the disk has; `recovered` is by queue id.

        Without a paging log, messages that are in no log stay in memory.
        """
        broker = Broker(catalogue, Pager(store, paging, budgets), random_octets)
        broker._load_users()
        for name, fields in catalogue.vhost_metadata().items():
            # The firehose does not outlive the process, as in RabbitMQ.
            broker.add_vhost(name, _metadata(name, {**fields, "tracing": False}))
        broker.changes.adopt(catalogue.parameters())
        broker._load_topology()
        for queue_id, found in recovered.items():
            # Of a level that was never used nothing is made.
            if found.next_seq > 1:
                queue = broker._surroundings.queues_by_id[queue_id]
                queue.part(queue_id).restore(found)
        return broker

    def drop_published_deaths(self) -> None:
        """Take x-death out of what is published: only the broker writes history."""
        self._surroundings.keeps_published_deaths = False

    def relax_quorum_checks(self) -> None:
        """Let who declares a quorum queue again take it for a classic one."""
        self._surroundings.relaxes_quorum_checks = True

    # -- at start -------------------------------------------------------------

    @property
    def is_blank(self) -> bool:
        """Whether nobody has ever set anything up here."""
        return not self.vhosts and not self.users.names()

    def create_defaults(self, defaults: Defaults) -> None:
        """On a blank directory: make the first virtual host and its administrator.

        Raises:
            CommitFailed: the disk would not take it.
        """
        if not self.is_blank:
            return
        password_hash, algorithm = self.hash_password(defaults.password)
        user = User(defaults.user, password_hash, algorithm, (ADMINISTRATOR,))
        rights = Permission(user.name, defaults.vhost, ".*", ".*", ".*")
        metadata = VhostMetadata("Default virtual host")
        self.catalogue.commit_now(
            put_vhost(defaults.vhost, metadata.fields())
            + put_user(user.name, user.password_hash, user.algorithm, user.tags)
            + put_permission(user.name, defaults.vhost, ".*", ".*", ".*")
        )
        self.add_vhost(defaults.vhost, metadata)
        self.users.put(user)
        self.permissions.put(rights)

    def add_vhost(self, name: str, metadata: VhostMetadata = NO_METADATA) -> None:
        """Make a virtual host that the catalogue has, unless it is there already.

        Its metadata is what is said in either case.
        """
        if name not in self.vhosts:
            self.vhosts[name] = VirtualHost(name, self._surroundings)
            if name == EVENT_VHOST:
                self.events.outlet = EventExchange(self.vhosts[name].topology)
        vhost = self.vhosts[name]
        is_changed = vhost.metadata.tracing != metadata.tracing
        vhost.metadata = metadata
        if is_changed:
            vhost.set_tracing(metadata.tracing)
            for connection in self.connections.in_vhost(name):
                connection.follow_tracing()

    def _note_alarm(self, resource: str, is_set: bool) -> None:
        node = self.admission.node_limits.node
        key = "alarm.set" if is_set else "alarm.cleared"
        self.events.tell(key, {"resource": resource, "node": node})

    # -- clients --------------------------------------------------------------

    def open_vhost(self, user: User, name: str, connection: object) -> Session:
        """Let a user into a virtual host.

        Raises:
            NotAllowed: it does not exist, it, the user or the node has as many
                connections as there may be, or the user has no rights in it.
        """
        self.admission.check_node()
        vhost = self.vhosts.get(name)
        if vhost is None:
            raise NotAllowed(f"vhost {name} not found")
        self.admission.check_vhost(user.name, name)
        self.admission.check_user(user.name)
        if self.permissions.get(user.name, name) is None:
            raise NotAllowed(f"access to vhost '{name}' refused for user '{user.name}'")
        return Session(user, vhost, self.permissions, connection, self.admission)

    def hash_password(self, password: str) -> tuple[str, str]:
        """Return a new hash and its algorithm; takes its time, on any thread."""
        algorithm = self.password_algorithm
        salt = self.random_octets(salt_size(algorithm))
        return hash_password(password, salt, algorithm), algorithm

    # -- steps ----------------------------------------------------------------

    def metadata_has_work(self) -> bool:
        """Whether a change waits to be committed."""
        return self.catalogue.has_work

    def begin_metadata(self) -> Step | None:
        """Take the changes that wait into a step; None when there are none."""
        return self.catalogue.begin()

    def complete_metadata(self, step: Step) -> None:
        """Tell those who wait for a step what became of it."""
        self.catalogue.complete(cast(MetadataStep, step))

    # -- loading --------------------------------------------------------------

    def _load_users(self) -> None:
        for row in self.catalogue.users():
            self.users.put(User(row.name, row.password_hash, row.algorithm, row.tags))
        for rights in self.catalogue.permissions():
            self.permissions.put(
                Permission(
                    rights.user,
                    rights.vhost,
                    rights.configure,
                    rights.write,
                    rights.read,
                )
            )
        for topic in self.catalogue.topic_permissions():
            self.permissions.put_topic(
                TopicPermission(
                    topic.user, topic.vhost, topic.exchange, topic.write, topic.read
                )
            )

    def _load_topology(self) -> None:
        for exchange in self.catalogue.exchanges():
            topology = self.vhosts[exchange.vhost].topology
            topology.add_exchange(_exchange(exchange), exchange.waiting_room_id)
        for queue in self.catalogue.queues():
            self._load_queue(queue)
        for row in self.catalogue.bindings():
            binding = Binding(
                row.source,
                row.destination,
                row.to_exchange,
                row.routing_key,
                decode_table(row.arguments),
                row.arguments,
            )
            self.vhosts[row.vhost].router.bind(binding)

    def _load_queue(self, row: QueueRow) -> None:
        arguments = Arguments(decode_table(row.arguments), row.arguments)
        self.vhosts[row.vhost].topology.make_queue(
            row.id, row.name, True, row.auto_delete, None, arguments
        )


def _metadata(name: str, fields: dict[str, object]) -> VhostMetadata:
    try:
        return NO_METADATA.with_fields(fields)
    except ParameterInvalid as error:
        # Definitions of an older version of this program were kept as they came.
        logger.error("metadata of vhost '%s' is not applied: %s", name, error)
        return NO_METADATA


def _exchange(row: ExchangeRow) -> Exchange:
    arguments = Arguments(decode_table(row.arguments), row.arguments)
    return Exchange(
        row.name, row.type_name, True, row.auto_delete, row.internal, arguments
    )
