"""Who asks: passwords are verified once, and forgotten when they change."""

import base64

import pytest

from amqpd.auth.passwords import hash_password
from amqpd.auth.users import User, UserRegistry
from amqpd.http.errors import NotAuthenticated, NotAuthorised
from amqpd.http.login import REMEMBERED_MAX, Login


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def user(name: str, password: str) -> User:
    return User(name, hash_password(password, b"salt"))


@pytest.fixture
def users() -> UserRegistry:
    registry = UserRegistry()
    registry.put(user("ann", "p:w"))
    registry.put(User("nopass", ""))
    registry.put(user("local", "p"))
    return registry


@pytest.fixture
def login(users: UserRegistry) -> Login:
    return Login(users, frozenset({"local"}))


async def test_who_knows_the_password_is_let_in(
    login: Login, users: UserRegistry
) -> None:
    for _ in range(2):
        found = await login.user_of(basic("ann", "p:w"), is_loopback=False)
        assert found is users.get("ann")


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Basic",
        "Basic !!",
        "Bearer x",
        basic("ann", "wrong"),
        basic("ann", ""),
        basic("nobody", "p"),
        basic("nopass", ""),
        "Basic " + base64.b64encode(b"\xff").decode(),
    ],
)
async def test_others_are_not(header: str | None, login: Login) -> None:
    with pytest.raises(NotAuthenticated):
        await login.user_of(header, is_loopback=True)


async def test_some_may_only_come_from_this_machine(login: Login) -> None:
    header = basic("local", "p")
    assert (await login.user_of(header, is_loopback=True)).name == "local"
    with pytest.raises(NotAuthorised, match="User can only log in via localhost"):
        await login.user_of(header, is_loopback=False)


async def test_a_changed_password_is_not_remembered(
    login: Login, users: UserRegistry
) -> None:
    await login.user_of(basic("ann", "p:w"), is_loopback=True)
    users.put(user("ann", "new"))
    with pytest.raises(NotAuthenticated):
        await login.user_of(basic("ann", "p:w"), is_loopback=True)
    users.remove("ann")
    with pytest.raises(NotAuthenticated):
        await login.user_of(basic("ann", "new"), is_loopback=True)


async def test_what_is_remembered_is_bounded(login: Login, users: UserRegistry) -> None:
    login._remembered = dict.fromkeys(
        number.to_bytes(2, "big") for number in range(REMEMBERED_MAX)
    )
    await login.user_of(basic("ann", "p:w"), is_loopback=True)
    assert len(login._remembered) == 1
