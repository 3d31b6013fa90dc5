"""The rules of one queue, from its arguments and policies."""

from amqpd.broker.policies.effective_policy import EffectivePolicy
from amqpd.broker.policies.policy import Policy
from amqpd.broker.queues.queue_rules import NO_RULES, QueueRules


def under(arguments: dict[str, object], **definition: object) -> QueueRules:
    said = {key.replace("_", "-"): value for key, value in definition.items()}
    policy = Policy("p", {"pattern": "", "definition": said}, False)
    return QueueRules(arguments, EffectivePolicy(policy, None))


def test_a_queue_without_any_has_no_rules() -> None:
    assert not NO_RULES.limits.has_length
    assert (NO_RULES.expires_ms, NO_RULES.consumer_timeout_ms) == (-1, 0)


def test_the_lesser_number_holds() -> None:
    rules = under(
        {"x-expires": 10, "x-consumer-timeout": 50, "x-max-length": 3},
        expires=20,
        consumer_timeout=40,
        max_length=2,
    )
    assert (rules.expires_ms, rules.consumer_timeout_ms) == (10, 40)
    assert rules.limits.length_max == 2


def test_rules_are_alike_if_they_say_the_same() -> None:
    rules = under({"x-max-length": 3}, max_length=5)
    assert rules.has_effect_of(QueueRules({"x-max-length": 3}))
    assert not rules.has_effect_of(under({"x-max-length": 3}, max_length=2))


def test_a_policy_makes_what_comes_back_wait() -> None:
    rules = under({}, delayed_retry_type="all", delayed_retry_min=5)
    assert [rules.limits.retry_delay_ms(count, True) for count in (1, 2)] == [5, 10]
    assert rules.limits.counts_deliveries
