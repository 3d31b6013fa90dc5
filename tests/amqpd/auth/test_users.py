"""Users and logins: who is let in, from where, and what the log says of the rest."""

import pytest

from amqpd.auth.passwords import hash_password
from amqpd.auth.users import (
    DEFAULT_LOOPBACK_USERS,
    LoginRefused,
    User,
    UserRegistry,
)


def make_user(name: str, password: str, tags: tuple[str, ...] = ()) -> User:
    return User(name, hash_password(password, b"salt"), tags=tags)


@pytest.fixture
def registry() -> UserRegistry:
    users = UserRegistry()
    users.put(make_user("guest", "guest", ("administrator",)))
    users.put(make_user("worker", "secret"))
    users.put(User("certificate", ""))
    return users


@pytest.mark.parametrize(
    ("name", "from_loopback"), [("guest", True), ("worker", True), ("worker", False)]
)
def test_who_has_a_password_may_prove_it(
    registry: UserRegistry, name: str, from_loopback: bool
) -> None:
    user = registry.candidate(name, from_loopback, DEFAULT_LOOPBACK_USERS)

    assert user is registry.get(name)


@pytest.mark.parametrize("name", ["nobody", "certificate", ""])
def test_everybody_else_is_refused_with_one_reason(
    registry: UserRegistry, name: str
) -> None:
    with pytest.raises(LoginRefused) as caught:
        registry.candidate(name, True, DEFAULT_LOOPBACK_USERS)

    assert caught.value.reason == f"user '{name}' - invalid credentials"
    assert caught.value.user_name == name


def test_guest_is_refused_from_another_machine(registry: UserRegistry) -> None:
    with pytest.raises(LoginRefused) as caught:
        registry.candidate("guest", False, DEFAULT_LOOPBACK_USERS)

    assert caught.value.reason == "user 'guest' can only connect via localhost"


def test_guest_comes_from_anywhere_when_no_user_is_bound_to_loopback(
    registry: UserRegistry,
) -> None:
    assert registry.candidate("guest", False, frozenset()).name == "guest"


@pytest.mark.parametrize("name", ["certificate", "worker"])
def test_a_certificate_proves_a_user_with_or_without_a_password(
    registry: UserRegistry, name: str
) -> None:
    user = registry.certified(name, False, DEFAULT_LOOPBACK_USERS)

    assert user is registry.get(name)


def test_a_certificate_of_nobody_is_refused_by_name(registry: UserRegistry) -> None:
    with pytest.raises(LoginRefused) as caught:
        registry.certified("CN=x\n", True, DEFAULT_LOOPBACK_USERS)

    assert caught.value.reason == (
        "there is no user 'CN=x\\n', whom the certificate names"
    )


def test_a_certificate_of_guest_is_refused_from_another_machine(
    registry: UserRegistry,
) -> None:
    with pytest.raises(LoginRefused, match="can only connect via localhost"):
        registry.certified("guest", False, DEFAULT_LOOPBACK_USERS)


def test_the_registry_counts_its_changes(registry: UserRegistry) -> None:
    before = registry.generation

    registry.put(make_user("worker", "new secret"))
    assert registry.generation == before + 1
    registry.remove("worker")
    assert registry.generation == before + 2
    registry.remove("worker")
    assert registry.generation == before + 2

    assert registry.get("worker") is None
    assert registry.names() == ["certificate", "guest"]


def test_a_name_cannot_forge_a_line_of_the_log(registry: UserRegistry) -> None:
    with pytest.raises(LoginRefused) as caught:
        registry.candidate("x\nINFO\udcff", True, DEFAULT_LOOPBACK_USERS)

    expected = r"user 'x\nINFO\udcff' - invalid credentials"
    assert caught.value.reason == str(caught.value) == expected


def test_tags_give_their_rights() -> None:
    assert make_user("a", "b", ("administrator",)).is_administrator
    assert not make_user("a", "b", ("management",)).is_administrator
    assert make_user("a", "b", ("x", "impersonator")).is_impersonator
    assert not make_user("a", "b").is_impersonator
