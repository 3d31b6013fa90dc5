"""Limits of virtual hosts and users: what they may be. Texts are RabbitMQ's."""

import pytest

from amqpd.broker.policies.number_limits import check_user_limits, check_vhost_limits
from amqpd.broker.policies.policy import ParameterInvalid


def test_limits_are_whole_numbers_of_their_owner() -> None:
    assert check_vhost_limits({"max-connections": 0, "max-queues": -5}) == {
        "max-connections": 0,
        "max-queues": -5,
    }
    assert check_user_limits({"max-channels": 3}) == {"max-channels": 3}


def test_an_empty_list_is_no_limits() -> None:
    assert check_vhost_limits([]) == {}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"max-queues": "x"}, 'max-queues should be a number, actually was <<"x">>'),
        ({"max-queues": 1.5}, "max-queues should be a number, actually was 1.5"),
        ({"max-queues": True}, "max-queues should be a number, actually was true"),
        ({"max-channels": 4}, 'Unrecognised terms [{<<"max-channels">>,4}] in limits'),
        ("x", "limits should be an object"),
    ],
)
def test_what_cannot_be_a_limit_is_refused(value: object, text: str) -> None:
    with pytest.raises(ParameterInvalid) as caught:
        check_vhost_limits(value)
    assert str(caught.value) == text


def test_queues_of_a_user_are_not_limited() -> None:
    with pytest.raises(ParameterInvalid) as caught:
        check_user_limits({"max-queues": 1})
    assert str(caught.value) == (
        'Unrecognised terms [{<<"max-queues">>,1}] in user-limits'
    )
