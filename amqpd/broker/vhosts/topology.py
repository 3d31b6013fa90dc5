"""The queues, exchanges and bindings of one virtual host, as they are in memory.

Everything that is here is routable, and what is durable of it has been committed. Names
are kept in three places that must agree: by name, in the router, and for the default
exchange by the octets that a publish carries. So all coming and going is here:

    queue leaves      its bindings go; an auto-delete exchange that loses its last
                      binding goes with them, and so on towards the sources
    at once           what ends with its last consumer or its connection does not wait
                      for the disk: it leaves memory, and its rows follow as an errand

Who may do what, and what a commit needs, is known to the operations (`*_changes`).
"""

import base64
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.arguments import Arguments, priority_level_count, queue_type
from amqpd.broker.catalogue.catalogue import Catalogue, Statement
from amqpd.broker.catalogue.operation import OperationLine
from amqpd.broker.catalogue.statements import delete_exchange, delete_queue
from amqpd.broker.clients.admission import Admission
from amqpd.broker.clients.traffic import Churn, Traffic
from amqpd.broker.delays.delay_queue import DelayQueue
from amqpd.broker.delays.delayed_messages import DelayedMessages
from amqpd.broker.errors import NotFound
from amqpd.broker.events import INTERNAL_USER, Events
from amqpd.broker.exchange import Exchange, predeclared
from amqpd.broker.policies.policy_table import PolicyTable
from amqpd.broker.ports import DurabilityWaiter
from amqpd.broker.queues.dispatch import Dispatch
from amqpd.broker.queues.keeper import KeepersRound
from amqpd.broker.queues.pager import Pager
from amqpd.broker.queues.priority_queue import PriorityQueue
from amqpd.broker.queues.queue import Queue
from amqpd.broker.queues.queue_expiry import QueueExpiry
from amqpd.broker.queues.queue_log import FIRST_TRANSIENT_ID
from amqpd.broker.queues.queue_rules import QueueRules
from amqpd.broker.rules.dead_letters import DeadLetters
from amqpd.broker.rules.queue_keeper import QueueKeeper
from amqpd.broker.vhosts.access import Access
from amqpd.broker.vhosts.policy_round import PolicyRound
from routing.binding import Binding
from routing.deduplication import DEDUPLICATION, Ledger, SeenIds
from routing.router import Router
from store.message_store import MessageStore

GENERATED_PREFIX: Final = "amq.gen-"
GENERATED_SIZE: Final = 16
SEED_SIZE: Final = 4


@final
class Surroundings:
    """What all virtual hosts of a broker share."""

    def __init__(
        self,
        catalogue: Catalogue,
        pager: Pager,
        dispatch: Dispatch,
        random_octets: Callable[[int], bytes],
    ) -> None:
        self.catalogue = catalogue
        self.store: MessageStore[DurabilityWaiter] = pager.store
        self.pager = pager
        self.dispatch = dispatch
        # Durable queues, as the log knows them.
        self.queues_by_id: dict[int, Queue] = {}
        # Of all virtual hosts that there are.
        self.topologies: dict[str, Topology] = {}
        self.timers = dispatch.timers
        self.keepers = KeepersRound()
        self.admission = Admission()
        # Of channels that have closed; the open ones count for themselves.
        self.traffic = Traffic()
        self.churn = Churn()
        self.events = Events(self.timers)
        # The ids of what has been published lately, where they are compared.
        self.ledger = Ledger()
        # Whether what publishers say in x-death is history, as in RabbitMQ 3.
        self.keeps_published_deaths = True
        # Whether a quorum queue may be declared again as a classic one.
        self.relaxes_quorum_checks = False
        self._random_octets = random_octets
        self._next_transient_id: i64 = FIRST_TRANSIENT_ID

    def queue_count(self) -> int:
        """How many queues there are, or are about to be, everywhere."""
        return sum(
            len(one.queues) + one.coming_queue_count for one in self.topologies.values()
        )

    def exchange_count(self) -> int:
        """How many exchanges there are everywhere, with the default ones."""
        return sum(len(one.exchanges) + 1 for one in self.topologies.values())

    def take_transient_id(self, level_count: i64 = 1) -> i64:
        """An id for a queue that is not stored, and one for each further level."""
        number = self._next_transient_id
        self._next_transient_id = number + level_count
        return number

    def new_seed(self) -> int:
        """A number that nobody can guess."""
        return int.from_bytes(self._random_octets(SEED_SIZE), "big")

    def new_name(self, prefix: str) -> str:
        """A name that nobody has."""
        octets = self._random_octets(GENERATED_SIZE)
        return prefix + base64.urlsafe_b64encode(octets).decode().rstrip("=")


@final
class Topology:
    """What is declared in one virtual host."""

    def __init__(self, name: str, surroundings: Surroundings) -> None:
        self.name = name
        self.surroundings = surroundings
        surroundings.topologies[name] = self
        self.line = OperationLine()
        self.router: Router[Queue] = Router(
            surroundings.new_seed(), surroundings.ledger
        )
        self.queues: dict[str, Queue] = {}
        # Another one whenever a queue has come or gone.
        self.queues_version: i64 = 0
        self.exchanges: dict[str, Exchange] = {}
        self.policies = PolicyTable()
        self._policy_round = PolicyRound(
            self._apply_to,
            self._apply_to_exchange,
            surroundings.timers,
            surroundings.keepers,
        )
        # Its virtual host is deleted, with all rows.
        self.is_gone = False
        # The type of queues that are declared without one; None: classic.
        self.default_queue_type: str | None = None
        # Queues that are not there yet: their rows are being committed.
        self.coming_queue_count = 0
        # The octets of ("", name) in basic.publish -> the queue of that name.
        self.default_routes: dict[bytes, Queue] = {}
        self.dead_letters = DeadLetters(
            self.router,
            self.default_routes,
            surroundings.keepers,
            surroundings.timers,
        )
        self.delayed_messages = DelayedMessages(self.router, surroundings.keepers)
        # Where messages wait, by the names of their exchanges.
        self.waiting_rooms: dict[str, DelayQueue] = {}
        # Queues whose deletion is being committed: nobody finds them any more.
        self.leaving: set[str] = set()
        self._exclusive: dict[object, dict[str, Queue]] = {}
        # Exchanges that may have lost their last binding while they were busy.
        self._maybe_unused: set[str] = set()
        for exchange in predeclared():
            self.add_exchange(exchange)

    # -- finding --------------------------------------------------------------

    def queue_resource(self, name: str) -> str:
        """How texts call a queue."""
        return f"queue '{name}' in vhost '{self.name}'"

    def no_queue(self, name: str) -> NotFound:
        """The error for a queue that is not there."""
        return NotFound(f"no {self.queue_resource(name)}")

    def find_queue(self, access: Access, name: str) -> Queue:
        """Return the queue, for whoever wants to use it.

        Raises:
            NotFound: there is none.
            ResourceLocked: it belongs to another connection.
        """
        queue = self.queues.get(name)
        if queue is None or name in self.leaving:
            raise self.no_queue(name)
        access.check_owner(queue)
        return queue

    def with_sources(self, keys: set[str]) -> set[str]:
        """Return the keys, and those of auto-delete exchanges bound to them.

        Whether these end when bindings go depends on their other bindings, so who
        removes one of the bindings is about all of them, up to the sources.
        """
        found = set(keys)
        todo = list(keys)
        while todo:
            kind, _, name = todo.pop().partition(" ")
            for binding in self.router.bindings_to(name, kind == "exchange"):
                key = exchange_key(binding.source)
                if key not in found and self.exchanges[binding.source].auto_delete:
                    found.add(key)
                    todo.append(key)
        return found

    def left_unused(self, gone: list[Binding]) -> list[Exchange]:
        """Return the exchanges that end when these bindings go, sources last."""
        removed = set(gone)
        doomed: dict[str, Exchange] = {}
        todo = list(gone)
        while todo:
            exchange = self.exchanges.get(todo.pop().source)
            if exchange is None or not exchange.auto_delete or exchange.name in doomed:
                continue
            if self._has_other_bindings(exchange.name, removed):
                continue
            doomed[exchange.name] = exchange
            for binding in self.router.bindings_to(exchange.name, True):
                if binding not in removed:
                    removed.add(binding)
                    todo.append(binding)
        return list(doomed.values())

    def _has_other_bindings(self, name: str, removed: set[Binding]) -> bool:
        for binding in self.router.bindings_from(name):
            if binding not in removed:
                return True
        return False

    def queue_used(self, queue: Queue) -> None:
        """Somebody used the queue, or stopped using it: its time to live begins."""
        if queue.expiry is not None:
            self.surroundings.timers.start(queue.expiry)

    # -- coming ---------------------------------------------------------------

    def make_queue(
        self,
        queue_id: i64,
        name: str,
        durable: bool,
        auto_delete: bool,
        owner: object | None,
        arguments: Arguments,
    ) -> Queue:
        """Make a queue and make it known."""
        rules = self._queue_rules(name, arguments.table)
        queue = self.new_queue(
            queue_id, name, durable, auto_delete, owner, arguments, rules
        )
        self._start_clock(queue, rules)
        self.queues[name] = queue
        self.queues_version += 1
        self.default_routes[default_route_key(name)] = queue
        self.router.add_destination(name, queue)
        self.dead_letters.look_again()
        if durable:
            for part_id in queue.ids():
                self.surroundings.queues_by_id[part_id] = queue
        if owner is not None:
            self._exclusive.setdefault(owner, {})[name] = queue
        return queue

    def new_queue(
        self,
        queue_id: i64,
        name: str,
        durable: bool,
        auto_delete: bool,
        owner: object | None,
        arguments: Arguments,
        rules: QueueRules,
    ) -> Queue:
        """Make a queue that nobody knows yet."""
        surroundings = self.surroundings
        level_count = priority_level_count(arguments.table)
        if level_count > 1:
            queue: Queue = PriorityQueue(
                queue_id,
                name,
                self.name,
                durable,
                auto_delete,
                owner,
                arguments.table,
                arguments.raw,
                surroundings.dispatch,
                surroundings.pager,
                level_count - 1,
            )
        else:
            queue = Queue(
                queue_id,
                name,
                self.name,
                durable,
                auto_delete,
                owner,
                arguments.table,
                arguments.raw,
                surroundings.dispatch,
                surroundings.pager,
            )
        if arguments.table.get(DEDUPLICATION) is True:
            queue.seen_ids = SeenIds(arguments.table, surroundings.ledger)
        queue.keeper = QueueKeeper(
            queue,
            rules,
            self.dead_letters,
            surroundings.timers,
            surroundings.keepers,
        )
        return queue

    def add_exchange(self, exchange: Exchange, waiting_room_id: i64 = 0) -> None:
        """Make an exchange known.

        A delayed one gets a waiting room, which has that id in the log if the exchange
        is durable.
        """
        exchange.policy = self.policies.for_exchange(exchange.name)
        self.router.add_exchange(
            exchange.name,
            exchange.type_name,
            exchange.alternate,
            exchange.arguments.table,
        )
        self.exchanges[exchange.name] = exchange
        self.dead_letters.look_again()
        if exchange.is_delayed:
            if not exchange.durable:
                waiting_room_id = self.surroundings.take_transient_id()
            self._open_waiting_room(exchange, waiting_room_id)

    def _open_waiting_room(self, exchange: Exchange, queue_id: i64) -> None:
        surroundings = self.surroundings
        room = DelayQueue(
            queue_id,
            exchange.name,
            self.name,
            exchange.durable,
            surroundings.dispatch,
            surroundings.pager,
            self.delayed_messages,
            surroundings.timers,
        )
        self.waiting_rooms[exchange.name] = room
        self.router.set_waiting_room(exchange.name, room)
        if room.durable:
            surroundings.queues_by_id[int(queue_id)] = room

    def delayed_count(self, exchange_name: str) -> int:
        """How many messages wait at an exchange."""
        room = self.waiting_rooms.get(exchange_name)
        return 0 if room is None else int(room.delayed_count)

    # -- rules ----------------------------------------------------------------

    def apply_policies(self, done: Callable[[], None]) -> None:
        """Policies have changed: whatever has other rules now keeps those at once.

        Of very many the rest follows in the next turns, and then `done`.
        """
        self._policy_round.begin(
            list(self.exchanges.values()), list(self.queues.values()), done
        )

    def _apply_to_exchange(self, exchange: Exchange) -> None:
        if self.exchanges.get(exchange.name) is not exchange:
            return
        policy = self.policies.for_exchange(exchange.name)
        if policy is not exchange.policy:
            exchange.policy = policy
            self.router.set_alternate(exchange.name, exchange.alternate)
            self.dead_letters.look_again()

    def _apply_to(self, queue: Queue) -> None:
        keeper = queue.keeper
        assert keeper is not None
        before = keeper.rules
        kind = queue_type(queue.arguments)
        effective = self.policies.for_queue(kind, queue.name)
        if effective is before.effective:
            return
        rules = QueueRules(queue.arguments, effective)
        if before.has_effect_of(rules):
            # Only the names are others, if anything.
            keeper.rules = rules
            return
        keeper.change_rules(rules)
        self.dead_letters.look_again()
        if before.expires_ms != rules.expires_ms:
            self._start_clock(queue, rules)
        for consumer in queue.consumers:
            consumer.on_rules_changed()

    def _queue_rules(self, name: str, table: dict[str, object]) -> QueueRules:
        effective = self.policies.for_queue(queue_type(table), name)
        return QueueRules(table, effective)

    def _start_clock(self, queue: Queue, rules: QueueRules) -> None:
        queue.expiry = None
        if rules.expires_ms > 0:
            queue.expiry = QueueExpiry(queue, rules.expires_ms, self.delete_queue_now)
            self.queue_used(queue)

    # -- going ----------------------------------------------------------------

    def take_out_queue(self, queue: Queue, user: str = INTERNAL_USER) -> list[Binding]:
        """Forget a queue's name and bindings; the queue itself is left as it is."""
        name = queue.name
        self.surroundings.churn.queues_deleted += 1
        del self.queues[name]
        self.queues_version += 1
        del self.default_routes[default_route_key(name)]
        self.leaving.discard(name)
        queue.expiry = None
        if queue.durable:
            for part_id in queue.ids():
                del self.surroundings.queues_by_id[part_id]
        owner = queue.exclusive_owner
        if owner is not None:
            owned = self._exclusive[owner]
            del owned[name]
            if not owned:
                del self._exclusive[owner]
        gone = self.router.remove_destination(name)
        self.dead_letters.look_again()
        self.surroundings.events.queue_deleted(queue, user, gone)
        return gone

    def take_out_exchange(self, exchange: Exchange) -> list[Binding]:
        """Forget an exchange and all bindings from it and to it, and what waits."""
        self._close_waiting_room(exchange.name)
        del self.exchanges[exchange.name]
        gone = self.router.remove_exchange(exchange.name)
        self.dead_letters.look_again()
        self.surroundings.events.exchange_deleted(exchange.name, self.name, gone)
        return gone

    def delete_queue_now(self, queue: Queue) -> None:
        """Delete a queue whatever the disk does; its rows follow. Twice is once."""
        if queue.is_deleted or self.queues.get(queue.name) is not queue:
            return
        statements: list[Statement] = []
        gone = self.take_out_queue(queue)
        if queue.durable:
            statements += delete_queue(self.name, int(queue.id), queue.name)
        self._drop_unused(gone, statements)
        queue.delete()
        self._stage_errand(statements)

    def delete_exclusive_queues(self, owner: object) -> None:
        """Delete the queues of a connection that has ended."""
        for queue in list(self._exclusive.get(owner, {}).values()):
            self.delete_queue_now(queue)

    def note_maybe_unused(self, exchange_name: str) -> None:
        """The exchange may have lost its last binding; look when it is not busy."""
        self._maybe_unused.add(exchange_name)

    def drop_maybe_unused(self) -> None:
        """Delete the exchanges that have lost their last binding while busy."""
        if not self._maybe_unused:
            return
        names = sorted(self._maybe_unused)
        self._maybe_unused = set()
        statements: list[Statement] = []
        for name in names:
            self._drop_if_unused(name, statements)
        self._stage_errand(statements)

    def _stage_errand(self, statements: list[Statement]) -> None:
        """Leave removals of rows, unless all went with the virtual host.

        By then there may be another of its name, whose rows are called the same.
        """
        if not self.is_gone:
            self.surroundings.catalogue.stage_errand(statements)

    def close_waiting_rooms(self) -> None:
        """Drop what waits at exchanges."""
        for name in list(self.waiting_rooms):
            self._close_waiting_room(name)

    def _close_waiting_room(self, exchange_name: str) -> None:
        room = self.waiting_rooms.pop(exchange_name, None)
        if room is not None:
            if room.durable:
                del self.surroundings.queues_by_id[int(room.id)]
            room.delete()

    def _drop_unused(self, gone: list[Binding], statements: list[Statement]) -> None:
        for binding in gone:
            self._drop_if_unused(binding.source, statements)

    def _drop_if_unused(self, name: str, statements: list[Statement]) -> None:
        exchange = self.exchanges.get(name)
        if exchange is None or not exchange.auto_delete:
            return
        if self.router.has_bindings_from(name):
            return
        if self.line.is_busy(exchange_key(name)):
            self._maybe_unused.add(name)
            return
        gone = self.take_out_exchange(exchange)
        if exchange.durable:
            statements += delete_exchange(self.name, name)
        self._drop_unused(gone, statements)


def queue_key(name: str) -> str:
    """How a queue is called in the line of operations."""
    return "queue " + name


def exchange_key(name: str) -> str:
    """How an exchange is called in the line of operations."""
    return "exchange " + name


def default_route_key(queue_name: str) -> bytes:
    """The octets of the default exchange and this routing key in basic.publish."""
    encoded = queue_name.encode("utf-8", "surrogateescape")
    return b"\x00" + bytes((len(encoded),)) + encoded
