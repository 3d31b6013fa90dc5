"""Rights: which name is asked about, and what a refusal says."""

from collections.abc import Callable

import pytest

from amqpd.auth.permissions import Permission, PermissionTable, TopicPermission
from amqpd.auth.users import User
from amqpd.broker.errors import AccessRefused
from amqpd.broker.vhosts.access import Access


def access(configure: str = "", write: str = "", read: str = "") -> Access:
    """Joe's rights in the virtual host v."""
    permissions = PermissionTable()
    permissions.put(Permission("joe", "v", configure, write, read))
    return Access(User("joe", ""), "v", permissions, object())


RIGHTS: dict[str, Callable[[Access, str, str], None]] = {
    "configure": Access.check_configure,
    "write": Access.check_write,
    "read": Access.check_read,
}


@pytest.mark.parametrize("right", RIGHTS)
def test_a_right_is_for_the_names_that_match(right: str) -> None:
    joe = access(**{right: "^jobs"})
    RIGHTS[right](joe, "queue", "jobs.1")
    with pytest.raises(AccessRefused) as caught:
        RIGHTS[right](joe, "queue", "other")
    assert caught.value.text == (
        f"{right} access to queue 'other' in vhost 'v' refused for user 'joe'"
    )


@pytest.mark.parametrize("right", RIGHTS)
def test_one_right_does_not_give_another(right: str) -> None:
    others = {name: ".*" for name in RIGHTS if name != right}
    with pytest.raises(AccessRefused):
        RIGHTS[right](access(**others), "queue", "q")


@pytest.mark.parametrize("right", RIGHTS)
def test_the_default_exchange_has_a_name_here(right: str) -> None:
    RIGHTS[right](access(**{right: "^amq.default$"}), "exchange", "")
    with pytest.raises(AccessRefused, match=r"'amq\.default' in vhost"):
        RIGHTS[right](access(), "exchange", "")


@pytest.mark.parametrize("right", RIGHTS)
def test_a_queue_without_a_name_is_not_the_default_exchange(right: str) -> None:
    with pytest.raises(AccessRefused, match="queue '' in vhost"):
        RIGHTS[right](access(**{right: "amq.default"}), "queue", "")


@pytest.mark.parametrize("right", RIGHTS)
def test_rights_that_were_taken_away_are_gone(right: str) -> None:
    permissions = PermissionTable()
    joe = Access(User("joe", ""), "v", permissions, object())
    with pytest.raises(AccessRefused):
        RIGHTS[right](joe, "queue", "q")


def test_every_change_of_rights_can_be_noticed() -> None:
    permissions = PermissionTable()
    joe = Access(User("joe", ""), "v", permissions, object())
    before = joe.permission_generation()
    permissions.put(Permission("ann", "w", "", "", ""))
    assert joe.permission_generation() != before


def test_topic_rights_are_for_one_exchange_and_user() -> None:
    permissions = PermissionTable()
    permissions.put_topic(TopicPermission("joe", "v", "x", "^w", "^r"))
    joe = Access(User("joe", ""), "v", permissions, object())
    jim = Access(User("jim", ""), "v", permissions, object())
    joe.check_topic_write("x", b"w")
    joe.check_topic_read("x", b"r")
    for other in (joe.check_topic_write, joe.check_topic_read):
        other("y", b"anything")
    jim.check_topic_write("x", b"anything")
    jim.check_topic_read("x", b"anything")


@pytest.mark.parametrize("right", ["write", "read"])
def test_a_key_that_may_not_be_used_is_named(right: str) -> None:
    permissions = PermissionTable()
    permissions.put_topic(TopicPermission("joe", "v", "x", "^w", "^r"))
    joe = Access(User("joe", ""), "v", permissions, object())
    check = joe.check_topic_write if right == "write" else joe.check_topic_read
    with pytest.raises(AccessRefused) as caught:
        check("x", b"a.\xff")
    assert caught.value.text == (
        f"{right} access to topic 'a.\ufffd' in exchange 'x' in vhost 'v' refused "
        "for user 'joe'"
    )
