"""A queue: messages in order, and the consumers who get them.

    publish -> ready -> (dispatch) -> unacked -> settled
                ^  ^                     |
    paged out <-+  +------- requeue -----+

A queue numbers its messages densely (`seq`); that number is a message's place for
good. A durable queue tells the log what it takes, hands out and settles, but never
waits: who waits for the disk is the publisher's channel. When memory runs short it
lets go of what a log has, and asks for it again window by window, ahead of need if it
has consumers. Names, permissions and what is bound to what are the virtual host's
business.
"""

from mypy_extensions import i64

from amqpd.broker.arguments import SINGLE_ACTIVE_CONSUMER
from amqpd.broker.errors import AccessRefused, ResourceError
from amqpd.broker.messages.message import Message
from amqpd.broker.queues.ages import NO_AGE, NO_TIME, DeliveryRun, QueueAges
from amqpd.broker.queues.backlog import Backlog
from amqpd.broker.queues.cold_load import ColdLoad, LoadedWindow
from amqpd.broker.queues.consumer_ring import ConsumerRing
from amqpd.broker.queues.delivery import Consumer, Reference
from amqpd.broker.queues.dispatch import Dispatch
from amqpd.broker.queues.keeper import Keeper
from amqpd.broker.queues.leaving import Leaving
from amqpd.broker.queues.pager import IS_READ, PagedQueue, Pager
from amqpd.broker.queues.queue_log import LANE, QueueLog
from amqpd.broker.queues.windows import Windows
from amqpd.broker.timers import Timed
from amqpd.wire.properties import PERSISTENT
from routing.deduplication import SeenIds
from store.replay import RecoveredQueue


class Queue(PagedQueue):
    """One queue of one virtual host, or one level of one that has priorities."""

    def __init__(
        self,
        queue_id: i64,
        name: str,
        vhost_name: str,
        durable: bool,
        auto_delete: bool,
        exclusive_owner: object | None,
        arguments: dict[str, object],
        raw_arguments: bytes,
        dispatch: Dispatch,
        pager: Pager,
    ) -> None:
        super().__init__(queue_id)
        self.name = name
        self.vhost_name = vhost_name
        self.durable = durable
        self.auto_delete = auto_delete
        self.exclusive_owner = exclusive_owner
        self.arguments = arguments
        self.raw_arguments = raw_arguments
        self.is_deleted = False
        self.consumers: list[Consumer] = []
        # The consumer if there is exactly one.
        self._lone: Consumer | None = None
        # Whether only one consumer at a time gets messages, and who that is.
        self.has_single_active: bool = arguments.get(SINGLE_ACTIVE_CONSUMER) is True
        self.active_consumer: Consumer | None = None
        # Its clock runs while nobody uses it; None: the queue does not expire.
        self.expiry: Timed | None = None
        # Who keeps its rules, and what that means for each message.
        self.keeper: Keeper | None = None
        self.is_ruled = self.has_deadlines = self.can_refuse = False
        # The ids of what has come lately, if a second one like it is not wanted.
        self.seen_ids: SeenIds | None = None
        self.unacked_count: i64 = 0
        self.next_seq: i64 = 1
        self._ready = self.ready = Backlog(durable, pager.use)
        self._ring = ConsumerRing()
        self._store = pager.store
        self._dispatch = dispatch
        self._pager = pager
        # The last message that the log has.
        self._stored_seq: i64 = 0
        self.log = QueueLog(self, queue_id, durable, pager)
        self._leaving = Leaving(self._ready, self.log, pager)
        self._windows = Windows(self, (name, vhost_name), self._ready, self.log, pager)
        self.ages = QueueAges(dispatch.times)
        self._use = pager.use

    @property
    def ready_count(self) -> int:
        """Messages that can be delivered."""
        return int(self._ready.count)

    @property
    def consumer_count(self) -> int:
        """Consumers that are subscribed, in line or not."""
        return len(self.consumers)

    @property
    def has_exclusive_consumer(self) -> bool:
        """Whether one consumer has the queue to itself."""
        return len(self.consumers) == 1 and self.consumers[0].exclusive

    @property
    def single_active_consumer_tag(self) -> str:
        """Who is active among consumers of whom only one is; empty if nobody is."""
        active = self.active_consumer
        return "" if active is None else active.tag

    def activity_status(self, consumer: Consumer) -> str:
        """What a consumer is here, in RabbitMQ's words."""
        if not self.has_single_active:
            return "up"
        return "single_active" if consumer is self.active_consumer else "waiting"

    def has_ready(self) -> bool:
        """Whether anything of this very level is ready, in memory or not."""
        return self._ready.at_hand > 0 or self._ready.behind > 0

    def ids(self) -> list[int]:
        """All ids that are its own in the log."""
        return [int(self.id)]

    def part(self, queue_id: i64) -> "Queue":
        """Return what has this id in the log."""
        return self

    def oldest_ready_age(self, now_ms: i64) -> i64:
        """The age of the first message that is ready, `NO_AGE` if there is none.

        If it has been on the disk since a restart, asking has it looked at, and until
        then `NO_AGE` is the answer, too. Where those before it were dropped unread, the
        answer is the age of one of them, until it has been looked at.
        """
        ready = self._ready
        if not ready.count:
            return NO_AGE
        enqueued_ms = ready.first_enqueued_ms
        is_late = ready.is_first_passed and not ready.at_hand
        if (enqueued_ms == NO_TIME or is_late) and not self.is_looking:
            self._pager.look(self)
        return NO_AGE if enqueued_ms == NO_TIME else max(0, now_ms - enqueued_ms)

    def oldest_unacked_age(self, now_ms: i64) -> i64:
        """The age of the oldest message that is unacked, `NO_AGE` if none is."""
        return self.ages.oldest_unacked_age(now_ms)

    def oldest_delivery_age(self, now_ms: i64) -> i64:
        """How long ago the oldest unacked delivery was, `NO_AGE` if there is none."""
        return self.ages.oldest_delivery_age(now_ms)

    @property
    def mean_time_in_queue_ms(self) -> float:
        """How long messages were in the queue: the mean of a sample."""
        return self.ages.mean_time_ms

    # -- messages come and go -------------------------------------------------

    def publish(self, message: Message) -> None:
        """Take a message as the last one."""
        seq = self.next_seq
        self.next_seq = seq + 1
        if self.durable and message.facts & PERSISTENT:
            self._stored_seq = seq
            if message.number >= 0:
                self._store.add_destination(self.id, seq, LANE)
            else:
                message.number = self._store.append(
                    message.address,
                    message.content,
                    message.body,
                    message.enqueued_ms,
                    message.expires_ms,
                    self.id,
                    seq,
                    LANE,
                )
        reference = Reference(self, message, seq)
        self._ready.append(reference)
        if not self.is_held:
            self._pager.hold(self)
        if (self.is_ruled or message.expires_ms) and self.keeper is not None:
            self.keeper.on_published(message, reference)
        if self._ring.count and not self.is_dirty:
            self._dispatch.mark(self)

    def pass_on(
        self, address: bytes, content: bytes, channel: i64, now_ms: i64
    ) -> bool:
        """Send a message on as if it had never been here, if a consumer can have it.

        That is so when nothing is before it, no rule is about it, and the only consumer
        stands in line and wants no acks. False: it has to be published.
        """
        consumer = self._lone
        ready = self._ready
        if consumer is None or not consumer.in_ring or ready.at_hand or ready.behind:
            return False
        if self.is_ruled or self.has_deadlines or self.can_refuse:
            return False
        if not consumer.pass_on(address, content, channel):
            return False
        if self.ages.passed_ms != now_ms:
            self.ages.note_passed(now_ms)
        return True

    def restore(self, found: RecoveredQueue) -> None:
        """Begin with what the log has, before anything else; all of it is cold."""
        last = found.next_seq - 1
        if found.count:
            self._ready.restore(found.first_seq, last, found.count, found.size)
        self.next_seq = found.next_seq
        self._stored_seq = last
        self._windows.delivered_seq = found.delivered_upper
        self._windows.returned = set(found.returned)
        if self.keeper is not None:
            self.keeper.restore_counts(found.returned)

    def get(self, no_ack: bool) -> Reference | None:
        """Take the first message for basic.get; None when there is none.

        Raises:
            ResourceError: it is on the disk and cannot be read.
        """
        reference = self._take_deliverable()
        if reference is None:
            return None
        message = reference.message
        now_ms = self._dispatch.timers.now_ms
        self.ages.note_left(now_ms, message.enqueued_ms)
        if no_ack:
            self._done_with(reference)
        else:
            run = self.ages.run(now_ms, message.enqueued_ms)
            run.count += 1
            reference.run = run
            self._use.unacked += message.cost
            self.unacked_count += 1
            self._note_delivered(reference)
        return reference

    def _take_deliverable(self) -> Reference | None:
        ready = self._ready
        while ready.count:
            self.read_in_place()
            if not ready.at_hand:
                return None
            # Only what has been read may turn out to have a deadline.
            keeper = self.keeper if self.has_deadlines else None
            if keeper is not None and not keeper.expire():
                return None
            if ready.at_hand:
                reference = ready.pop()
                if keeper is None or keeper.may_deliver(reference):
                    return reference
        return None

    def dispatch(self, messages_max: i64, size_max: i64) -> bool:
        """Deliver a bounded run; return whether more could be delivered now."""
        ready = self._ready
        ring = self._ring
        keeper = self.keeper if self.has_deadlines else None
        if keeper is not None and not keeper.expire():
            return False
        sent: i64 = 0
        size: i64 = 0
        run: DeliveryRun | None = None
        while ready.at_hand and sent < messages_max and size < size_max:
            consumer = ring.next()
            if consumer is None:
                break
            alone = ring.is_alone(consumer)
            no_ack = consumer.no_ack
            while True:
                reference = ready.pop()
                sent += 1
                if keeper is not None and not keeper.may_deliver(reference):
                    if not ready.at_hand or sent >= messages_max:
                        break
                    continue
                message = reference.message
                size += message.size
                if no_ack:
                    consumer.deliver(reference)
                    self._done_with(reference)
                else:
                    if run is None:
                        now_ms = self._dispatch.timers.now_ms
                        run = self.ages.run(now_ms, message.enqueued_ms)
                    run.count += 1
                    reference.run = run
                    self._use.unacked += message.cost
                    reference.consumer = consumer
                    consumer.unacked_count += 1
                    self.unacked_count += 1
                    consumer.deliver(reference)
                if not alone or not ready.at_hand or not consumer.has_room():
                    break
                if sent >= messages_max or size >= size_max:
                    break
            if not no_ack:
                self._note_delivered(reference)
        if sent:
            now_ms = self._dispatch.timers.now_ms
            self.ages.note_left(now_ms, reference.message.enqueued_ms)
        if ready.behind and ready.at_hand < self._windows.low_count:
            self.refill()
        return ready.at_hand > 0 and ring.count > 0

    def settle(self, reference: Reference) -> None:
        """An unacked reference is done with: acked, or rejected for good."""
        self._note_answered(reference)
        if not self.is_deleted:
            self.unacked_count -= 1
            self._done_with(reference)

    def settle_run(self, references: list[Reference], start: i64, end: i64) -> None:
        """Its unacked references from `start` to before `end` are done with."""
        if self.is_deleted or self.is_ruled or not self.durable:
            for at in range(start, end):
                self.settle(references[at])
        else:
            self.unacked_count -= end - start
            self.log.settle_run(references, start, end)

    def reject(self, reference: Reference) -> None:
        """An unacked reference is not wanted: it may be a dead letter."""
        self._note_answered(reference)
        if self.is_deleted:
            return
        self.unacked_count -= 1
        if self.keeper is not None:
            self.keeper.reject(reference)
        else:
            self._done_with(reference)

    def requeue(self, reference: Reference, is_failed: bool = False) -> None:
        """An unacked reference goes back to its place."""
        self._note_answered(reference)
        if self.is_deleted:
            return
        self.unacked_count -= 1
        reference.redelivered = True
        reference.consumer = None
        keeper = self.keeper if self.is_ruled else None
        if keeper is None or keeper.may_return(reference, is_failed):
            self._put_back(reference)

    def _note_answered(self, reference: Reference) -> None:
        """It is unacked no longer, also of a queue that is gone."""
        self._use.unacked -= reference.message.cost
        run = reference.run
        if run is not None:
            run.count -= 1
            reference.run = None

    def take_back(self, reference: Reference) -> None:
        """One was away and is here: the disk refused a move, or its wait is over."""
        if not self.is_deleted:
            self._put_back(reference)

    def _put_back(self, reference: Reference) -> None:
        self._ready.put_back(reference)
        if not self.is_held:
            self._pager.hold(self)
        if self._ring.count and not self.is_dirty:
            self._dispatch.mark(self)
        if (self.is_ruled or self.has_deadlines) and self.keeper is not None:
            self.keeper.on_returned(reference)

    def wake(self) -> None:
        """Something may have become deliverable."""
        if self._ring.count and self._ready.at_hand and not self.is_dirty:
            self._dispatch.mark(self)

    def purge(self) -> int:
        """Drop all ready messages; return how many there were."""
        ready = self._ready
        count = int(ready.count)
        spared = [] if self.keeper is None else self.keeper.held_seqs()
        self.log.purge_cold(ready, spared)
        for reference in ready.take_all():
            self._done_with(reference)
        if self.keeper is not None:
            count += self.keeper.on_purged()
        self._windows.void()
        self._pager.end_draining(self)
        return count

    def drop_refused(self, seqs: set[int]) -> None:
        """Take out new messages that the disk refused, unless a consumer has them."""
        removed = self._ready.remove(seqs)
        if self.has_deadlines and self.keeper is not None:
            self.keeper.on_removed(removed)
        if len(removed) < len(seqs):
            refused = self._leaving.refused
            refused.update(seqs)
            refused.difference_update([int(reference.seq) for reference in removed])

    # -- consumers ------------------------------------------------------------

    def add_consumer(self, consumer: Consumer) -> None:
        """Subscribe a consumer; it gets messages from the next dispatch on.

        Raises:
            AccessRefused: somebody has, or would get, the queue exclusively; where only
                one consumer is active nobody can.
        """
        is_shared = bool(self.consumers) or self.has_single_active
        if self.has_exclusive_consumer or (consumer.exclusive and is_shared):
            raise AccessRefused(
                f"queue '{self.name}' in vhost '{self.vhost_name}' in exclusive use"
            )
        self.consumers.append(consumer)
        self._lone = consumer if len(self.consumers) == 1 else None
        if self.has_single_active and self.active_consumer is None:
            self.active_consumer = consumer
        self.offer(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        """End a subscription. What the consumer has unacked stays with its channel."""
        consumer.is_cancelled = True
        if consumer in self.consumers:
            self.consumers.remove(consumer)
            self._lone = self.consumers[0] if len(self.consumers) == 1 else None
        self._ring.remove(consumer)
        if consumer is self.active_consumer:
            self._hand_over()
        if not self.consumers:
            self._pager.end_reading(self)

    def offer(self, consumer: Consumer) -> None:
        """The consumer may have room again: it stands in line from now on."""
        if consumer.in_ring or consumer.is_cancelled:
            return
        if self.has_single_active and consumer is not self.active_consumer:
            return
        self._ring.add(consumer)
        if (self._ready.at_hand or self._ready.behind) and not self.is_dirty:
            self._dispatch.mark(self)

    def _hand_over(self) -> None:
        """The active consumer is gone: the first of the highest priority is next."""
        heir: Consumer | None = None
        for consumer in self.consumers:
            if heir is None or consumer.priority > heir.priority:
                heir = consumer
        self.active_consumer = heir
        if heir is not None:
            self.offer(heir)

    # -- out of memory and back -----------------------------------------------

    def has_memory(self) -> bool:
        """Whether any message that is ready is in memory."""
        return self._ready.has_memory

    def page_out(self, units: i64, is_all_over: bool) -> i64:
        """Let go of messages; return how many units of work that was.

        With consumers, a window stays. Unless `is_all_over`, only the log's has to go.
        """
        ready = self._ready
        if not (is_all_over or ready.stored_cost):
            return 0
        keeps_window = bool(self.consumers)
        if not keeps_window:
            self._pager.end_draining(self)
            self._leaving.fold_returned(self.next_seq, self._is_anything_out())
        if not ready.is_split:
            if not self._leaving.split(self._pager.window() if keeps_window else 0):
                return 0
            self._windows.low_count = max(1, ready.at_hand // 2)
        done = self._leaving.drop(units)
        if not (keeps_window or self.is_loading):
            done += self._leaving.drop_head(units - done)
        return done

    def drop_unread(self, units: i64) -> i64:
        """Let go of what the log has; `IS_READ` if somebody consumes."""
        return IS_READ if self.consumers else self._leaving.drop_unread(units)

    def _is_anything_out(self) -> bool:
        """Whether something of the queue is neither ready nor gone."""
        if self.unacked_count or self.is_loading:
            return True
        return self.keeper is not None and self.keeper.waiting_count() > 0

    def begin_load(self) -> ColdLoad | None:
        """Plan to read the next window; None if it is not wanted any more."""
        if self.is_deleted or self.is_loading or not self._ready.cold_count:
            return None
        keeper = self.keeper
        if keeper is None or not keeper.wants_window():
            if not self.consumers:
                self._pager.end_draining(self)
                return None
            if not self._ring.is_awaited(self.consumers):
                # Whoever gets room asks again.
                return None
        return self._windows.begin()

    def begin_look(self) -> ColdLoad | None:
        """Plan to look at the first cold message; None if it is of no interest."""
        return None if self.is_deleted else self._windows.begin_look()

    def complete_load(self, load: ColdLoad, found: LoadedWindow) -> bool:
        """Take a window in; return False if it is to be tried again later."""
        windows = self._windows
        if load.is_look:
            windows.take_look(load, found)
            return True
        is_loaded = True
        if windows.is_wanted(load):
            self.is_loading = False
            is_loaded = windows.take(found, self.keeper)
        # Consumers that waited for it, in vain or not.
        if self._ring.count and not self.is_dirty:
            self._dispatch.mark(self)
        if self.keeper is not None:
            self.keeper.on_window()
        return is_loaded

    def refill(self) -> None:
        """Little is at hand, and there is more."""
        if not (self._ready.cold_count or self.is_loading):
            self._ready.join()
        elif not (self.is_loading or self.is_wanting):
            self._pager.want(self)

    def read_in_place(self) -> None:
        """Have something at hand, if anything is ready.

        Raises:
            ResourceError: it cannot be read.
        """
        ready = self._ready
        while ready.behind and not ready.at_hand:
            # What is being loaded would come after what is read now.
            self._windows.void()
            if not ready.cold_count:
                ready.join()
                return
            load = self._windows.begin_in_place()
            load.run()
            if not self._windows.take(self._pager.finish_load(load), self.keeper):
                raise ResourceError(f"queue '{self.name}' cannot be read from the disk")
        if self._ring.count and not self.is_dirty:
            self._dispatch.mark(self)

    def drop_first_unread(self) -> bool:
        """Drop the first message, of which nothing needs to be known, if it is cold.

        Returns False if something is at hand, or if it is not in the log.
        """
        return not self._ready.at_hand and self._windows.drop_first()

    # -- the end --------------------------------------------------------------

    def delete(self) -> int:
        """Drop everything and tell the consumers; return how many were ready.

        The caller has removed the name and, if the queue is durable, its row.
        """
        self.is_deleted = True
        count = int(self._ready.count)
        self._pager.let_go(self._ready.take_lines(), self.durable)
        if self.keeper is not None:
            count += self.keeper.on_purged()
        self._windows.void()
        self._pager.forget(self)
        consumers = self.consumers
        self.consumers = []
        self._lone = self.active_consumer = None
        self._ring.clear()
        for consumer in consumers:
            consumer.is_cancelled = True
            consumer.on_queue_gone()
        self.unacked_count = 0
        self.ages.clear()
        self.log.forget_queue()
        return count

    # -- what the log is told -------------------------------------------------

    def _done_with(self, reference: Reference) -> None:
        if self.is_ruled and self.keeper is not None:
            self.keeper.on_settled(reference)
        self.log.forget(reference, reference.message)

    def _note_delivered(self, reference: Reference) -> None:
        """Everything up to this one, the last of a run, has been delivered once."""
        before = self._windows.delivered_seq
        if reference.seq <= before:
            return
        self._windows.delivered_seq = reference.seq
        if self._stored_seq > before:
            self._store.note_delivered(self.id, LANE, reference.seq)
