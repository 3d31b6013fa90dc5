"""Permissions: which names a user may configure, write and read."""

import pytest

from amqpd.auth.permissions import (
    PatternInvalid,
    Permission,
    PermissionTable,
    TopicPermission,
)


def make_permission(pattern: str) -> Permission:
    return Permission("user", "/", pattern, pattern, pattern)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        (".*", "anything", True),
        (".*", "", True),
        ("", "jobs", False),
        ("", "amq.default", False),
        ("^$", "jobs", False),
        # Searched for, not matched as a whole.
        ("job", "my-jobs", True),
        ("^job", "my-jobs", False),
        ("^(jobs|amq\\.default)$", "amq.default", True),
        ("^(jobs|amq\\.default)$", "amq_default", False),
        # PCRE's spelling.
        ("^jobs\\z", "jobs", True),
        ("^jobs\\z", "jobs2", False),
        ("^a\\hb$", "a b", True),
        ("^a\\\\z$", "a\\z", True),
        ("^\u0142", "\u0142ata", True),
    ],
)
def test_a_name_is_searched_for_the_pattern(
    pattern: str, name: str, expected: bool
) -> None:
    permission = make_permission(pattern)

    assert permission.may_configure(name) is expected
    assert permission.may_write(name) is expected
    assert permission.may_read(name) is expected


def test_the_three_rights_are_apart() -> None:
    permission = Permission("user", "/", "c", "w", "r")

    assert [permission.may_configure(name) for name in "cwr"] == [True, False, False]
    assert [permission.may_write(name) for name in "cwr"] == [False, True, False]
    assert [permission.may_read(name) for name in "cwr"] == [False, False, True]


@pytest.mark.parametrize("pattern", ["*", "(", "[a", "(?P<a", "a{9999999999999999999}"])
def test_a_pattern_that_does_not_compile_is_refused(pattern: str) -> None:
    with pytest.raises(PatternInvalid, match="invalid regular expression"):
        make_permission(pattern)


def test_the_texts_are_kept_as_given() -> None:
    permission = Permission("user", "/", "", "^a\\z", ".*")

    texts = (permission.configure, permission.write, permission.read)
    assert texts == ("", "^a\\z", ".*")


def test_the_table_holds_one_entry_per_user_and_vhost_and_counts_changes() -> None:
    table = PermissionTable()
    first, second = make_permission("a"), make_permission("b")

    table.put(first)
    table.put(second)

    assert table.get("user", "/") is second
    assert table.get("user", "other") is None
    assert table.get("other", "/") is None
    assert table.generation == 2


def test_removing_what_is_not_there_changes_nothing() -> None:
    table = PermissionTable()
    table.put(make_permission("a"))

    table.remove("user", "other")
    table.remove("user", "/")
    table.remove("user", "/")

    assert table.get("user", "/") is None
    assert table.generation == 2


def test_entries_are_listed_by_vhost_and_user() -> None:
    table = PermissionTable()
    for user, vhost in [("b", "/"), ("a", "x"), ("a", "/")]:
        table.put(Permission(user, vhost, "", "", ""))

    listed = [(entry.vhost, entry.user) for entry in table.entries()]

    assert listed == [("/", "a"), ("/", "b"), ("x", "a")]


@pytest.mark.parametrize(
    ("pattern", "routing_key", "expected"),
    [
        ("^{username}\\.", "joe.smith.orders", True),
        ("^{username}\\.", "joe-smith.orders", False),
        ("^{vhost}-{username}$", "/v-joe.smith", True),
        ("", "", True),
        ("", "a", False),
        ("{client_id}", "{client_id}", True),
        ("a$", "a\n", True),
    ],
)
def test_a_routing_key_is_searched_for_the_pattern_with_names_in_it(
    pattern: str, routing_key: str, expected: bool
) -> None:
    write = TopicPermission("joe.smith", "/v", "x", pattern, "no")
    read = TopicPermission("joe.smith", "/v", "x", "no", pattern)

    assert (write.may_write(routing_key), write.may_read(routing_key)) == (
        expected,
        False,
    )
    assert (read.may_write(routing_key), read.may_read(routing_key)) == (
        False,
        expected,
    )
    assert (write.write, read.read) == (pattern, pattern)


def test_a_name_in_a_pattern_is_no_pattern() -> None:
    permission = TopicPermission(".*", "/", "x", "^{username}$", "^{vhost}$")

    assert not permission.may_write("anything")
    assert permission.may_write(".*")


@pytest.mark.parametrize(("write", "read"), [("(", ""), ("", "(")])
def test_a_topic_pattern_that_does_not_compile_is_refused(
    write: str, read: str
) -> None:
    with pytest.raises(PatternInvalid, match="invalid regular expression"):
        TopicPermission("u", "/", "x", write, read)


def test_topic_permissions_come_and_go_and_are_counted() -> None:
    table = PermissionTable()
    first = TopicPermission("u", "/", "x", "a", "")
    second = TopicPermission("u", "/", "x", "b", "")

    table.put_topic(first)
    table.put_topic(second)

    assert table.topic("u", "/", "x") is second
    assert table.topic("u", "/", "y") is None
    assert table.generation == 2
    table.remove_topic("u", "/", "y")
    assert table.generation == 2
    table.remove_topic("u", "/", "x")
    assert table.topic("u", "/", "x") is None
    assert table.generation == 3


def test_topic_entries_are_listed_by_vhost_user_and_exchange() -> None:
    table = PermissionTable()
    for user, vhost, exchange in [("b", "/", "x"), ("a", "v", "x"), ("b", "/", "w")]:
        table.put_topic(TopicPermission(user, vhost, exchange, "", ""))

    listed = [(one.vhost, one.user, one.exchange) for one in table.topic_entries()]

    assert listed == [("/", "b", "w"), ("/", "b", "x"), ("v", "a", "x")]
