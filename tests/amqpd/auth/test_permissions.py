"""Permissions: which names a user may configure, write and read."""

import pytest

from amqpd.auth.permissions import PatternInvalid, Permission, PermissionTable


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
