"""How many connections and channels there may be. Texts are RabbitMQ's."""

from collections.abc import Callable

import pytest

from amqpd.broker.clients.admission import Admission, NodeLimits
from amqpd.broker.errors import NotAllowed, PreconditionFailed


def test_a_virtual_host_is_full_at_its_limit() -> None:
    admission = Admission()
    admission.vhost_limits["v"] = {"max-connections": 1}
    admission.check_vhost("joe", "v")
    admission.enter("joe", "v")
    admission.check_vhost("joe", "other")
    with pytest.raises(NotAllowed) as caught:
        admission.check_vhost("joe", "v")
    assert caught.value.text == (
        "access to vhost 'v' refused for user 'joe': connection limit (1) is reached"
    )
    admission.leave("joe", "v")
    admission.check_vhost("joe", "v")


def test_a_user_has_as_many_connections_as_allowed_in_all_virtual_hosts() -> None:
    admission = Admission()
    admission.user_limits["joe"] = {"max-connections": 2}
    admission.enter("joe", "v")
    admission.enter("joe", "w")
    admission.check_user("ann")
    with pytest.raises(NotAllowed) as caught:
        admission.check_user("joe")
    assert caught.value.text == (
        "connection refused for user 'joe': user connection limit (2) is reached"
    )


def test_channels_are_counted_by_user() -> None:
    admission = Admission()
    admission.user_limits["joe"] = {"max-channels": 1}
    admission.enter_channel("joe")
    admission.enter_channel("ann")
    with pytest.raises(NotAllowed) as caught:
        admission.enter_channel("joe")
    assert caught.value.text == (
        "number of channels opened for user 'joe' has reached the maximum allowed "
        "user limit of (1)"
    )
    admission.leave_channel("joe")
    admission.enter_channel("joe")


@pytest.mark.parametrize(("limit", "is_in"), [(-1, True), (0, False)])
def test_nothing_is_forbidden_and_a_negative_limit_is_none(
    limit: int, is_in: bool
) -> None:
    admission = Admission()
    admission.user_limits["joe"] = {"max-connections": limit}
    if is_in:
        admission.check_user("joe")
    else:
        with pytest.raises(NotAllowed):
            admission.check_user("joe")


def test_a_limit_that_is_lowered_turns_nobody_out() -> None:
    admission = Admission()
    admission.enter("joe", "v")
    admission.enter("joe", "v")
    admission.vhost_limits["v"] = {"max-connections": 1, "max-queues": 3}
    admission.leave("joe", "v")
    with pytest.raises(NotAllowed):
        admission.check_vhost("joe", "v")
    assert (admission.queue_limit("v"), admission.queue_limit("w")) == (3, -1)


def test_the_node_has_room_for_so_many_connections() -> None:
    admission = Admission()
    admission.node_limits = NodeLimits(connection_max=1)
    admission.check_node()
    admission.enter("joe", "v")
    with pytest.raises(NotAllowed) as caught:
        admission.check_node()
    text = "connection refused: node connection limit (1) is reached"
    assert caught.value.text == text
    admission.leave("joe", "v")
    admission.check_node()


def test_the_node_has_room_for_so_many_channels_of_all_users() -> None:
    admission = Admission()
    admission.node_limits = NodeLimits("amqpd@here", channel_max=1)
    admission.enter_channel("joe")
    with pytest.raises(NotAllowed) as caught:
        admission.enter_channel("ann")
    assert caught.value.text == (
        "number of channels opened on node 'amqpd@here' has reached the maximum "
        "allowed limit of (1)"
    )
    admission.leave_channel("joe")
    admission.enter_channel("ann")


def test_a_channel_has_so_many_consumers() -> None:
    admission = Admission()
    admission.check_consumer(1_000)
    admission.node_limits = NodeLimits(consumer_max_per_channel=2)
    admission.check_consumer(1)
    with pytest.raises(NotAllowed) as caught:
        admission.check_consumer(2)
    assert caught.value.text == "reached maximum (2) of consumers per channel"


@pytest.mark.parametrize(
    ("limits", "check", "text"),
    [
        (
            NodeLimits(vhost_max=2),
            NodeLimits.check_vhosts,
            "cannot create vhost 'x': vhost limit of 2 is reached",
        ),
        (
            NodeLimits(queue_max=2),
            NodeLimits.check_queues,
            "cannot declare queue 'x': queue limit in cluster (2) is reached",
        ),
        (
            NodeLimits(exchange_max=2),
            NodeLimits.check_exchanges,
            "cannot declare exchange 'x': exchange limit in cluster (2) is reached",
        ),
    ],
    ids=["vhosts", "queues", "exchanges"],
)
def test_a_node_has_so_many_things(
    limits: NodeLimits, check: Callable[[NodeLimits, str, int], None], text: str
) -> None:
    check(NodeLimits(), "x", 1_000)
    check(limits, "x", 1)
    with pytest.raises(PreconditionFailed) as caught:
        check(limits, "x", 2)
    assert caught.value.text == text
