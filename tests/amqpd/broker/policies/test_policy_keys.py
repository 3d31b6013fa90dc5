"""What a policy may set: texts as RabbitMQ's management API answers them."""

import pytest

from amqpd.broker.policies.policy_keys import REMOVED_KEYS, definition_problem

VALID: dict[str, list[object]] = {
    "alternate-exchange": ["x"],
    "consumer-disconnected-timeout": [0],
    "consumer-timeout": [0, 5],
    "dead-letter-exchange": ["", "x"],
    "dead-letter-routing-key": ["k"],
    "dead-letter-strategy": ["at-most-once", "at-least-once"],
    "delayed-retry-max": [5],
    "delayed-retry-min": [5],
    "delayed-retry-type": ["disabled", "all", "failed", "returned"],
    "delivery-limit": [-1, 0, 20],
    "expires": [1, 10**13],
    "federation-upstream": ["u"],
    "federation-upstream-pattern": ["^u"],
    "federation-upstream-set": ["all"],
    "initial-cluster-size": [0],
    "max-age": ["7D", "10s"],
    "max-in-memory-bytes": [0],
    "max-in-memory-length": [0],
    "max-length": [0, 10],
    "max-length-bytes": [0],
    "member-placement-tag": ["t"],
    "message-ttl": [0, 60000],
    "overflow": ["drop-head", "reject-publish", "reject-publish-dlx"],
    "queue-leader-locator": ["client-local", "balanced"],
    "queue-master-locator": ["min-masters", "client-local", "random"],
    "queue-mode": ["default", "lazy"],
    "queue-version": [1, 2],
    "routing-key": ["k"],
    "shards-per-node": [2],
    "stream-filter-size-bytes": [16, 255],
    "stream-max-segment-size-bytes": [0],
    "target-group-size": [3],
    **{key: ["anything", 1] for key in sorted(REMOVED_KEYS)},
}


@pytest.mark.parametrize("key", VALID)
def test_a_policy_may_set_it(key: str) -> None:
    for value in VALID[key]:
        assert definition_problem({key: value}, False) == ""


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("max-length", "x", '<<"x">> is not a valid maximum length'),
        ("max-length", -1, "-1 is not a valid maximum length"),
        ("max-length", 1.5, "1.5 is not a valid maximum length"),
        ("max-length", True, "true is not a valid maximum length"),
        ("max-length-bytes", -1, "-1 is not a valid maximum length in bytes"),
        ("message-ttl", -1, "-1 is not a valid message TTL"),
        ("expires", 0, "0 is not a valid queue expiry"),
        ("overflow", "x", '<<"x">> is not a valid overflow value'),
        ("overflow", 1, "1 is not a valid overflow value"),
        ("dead-letter-exchange", 1, "1 is not a valid dead letter exchange name"),
        ("dead-letter-routing-key", 1, "1 is not a valid dead letter routing key"),
        ("alternate-exchange", 1, "1 is not a valid alternate exchange name"),
        ("queue-mode", "x", '<<"x">> is not a valid queue-mode value'),
        ("queue-version", 3, "3 is not a valid queue-version value"),
        ("queue-version", True, "true is not a valid queue-version value"),
        ("delivery-limit", "x", '<<"x">> is not a valid delivery limit'),
        ("max-in-memory-length", -1, "-1 is not a valid maximum memory in bytes"),
        (
            "queue-master-locator",
            "x",
            '<<"x">> invalid queue-master-locator value',
        ),
        (
            "queue-leader-locator",
            "x",
            '<<"x">> is not a valid queue leader locator value',
        ),
        ("dead-letter-strategy", "x", '<<"x">> is not a valid dead letter strategy'),
        ("max-age", "x", '<<"x">> is not a valid max age'),
        ("max-age", 7, "7 is not a valid max age"),
        ("stream-filter-size-bytes", 15, "15 is not a valid filter size"),
        ("stream-max-segment-size-bytes", -1, "-1 is not a valid segment size"),
        ("target-group-size", 0, "0 is not a valid target group size"),
    ],
)
def test_a_value_that_cannot_be_is_refused(key: str, value: object, text: str) -> None:
    assert definition_problem({key: value}, False) == text


def test_what_nobody_knows_is_named() -> None:
    assert definition_problem({"foo": 1, "bar": "x", "max-length": 1}, False) == (
        '[{<<"bar">>,<<"x">>},{<<"foo">>,1}] are not recognised policy settings'
    )


def test_a_policy_sets_something() -> None:
    assert definition_problem({}, False) == "no policy provided"


def test_an_operator_may_set_less() -> None:
    assert definition_problem({"max-length": 1, "delivery-limit": 2}, True) == ""
    assert definition_problem({"dead-letter-exchange": "x"}, True) == (
        '[{<<"dead-letter-exchange">>,<<"x">>}] are not recognised policy settings'
    )
