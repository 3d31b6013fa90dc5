"""Who asks: passwords are verified once, and forgotten when they change."""

import asyncio
import base64

import pytest

from amqpd.auth.passwords import ARGON2ID, hash_password
from amqpd.auth.users import User, UserRegistry
from amqpd.broker.clients.traffic import Churn
from amqpd.http.attempts import LoginAttempts
from amqpd.http.errors import NotAuthenticated, NotAuthorised
from amqpd.http.login import Login
from tests.support.secrets import secret_checks, verify_all

SLOW = hash_password("p", b"0123456789abcdef", ARGON2ID)


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
    registry.put(User("slow", SLOW, ARGON2ID))
    return registry


@pytest.fixture
def attempts() -> LoginAttempts:
    return LoginAttempts()


@pytest.fixture
def login(users: UserRegistry, attempts: LoginAttempts) -> Login:
    checks = secret_checks()

    def wake() -> None:
        asyncio.get_running_loop().call_soon(verify_all, checks)

    return Login(users, checks, wake, frozenset({"local"}), attempts)


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
        basic("slow", "wrong"),
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


async def test_who_asks_while_somebody_verifies_waits(login: Login) -> None:
    header = basic("slow", "p")
    first, second = await asyncio.gather(
        login.user_of(header, is_loopback=True), login.user_of(header, is_loopback=True)
    )
    assert first.name == second.name == "slow"


async def test_who_has_gone_while_somebody_verified_is_not_let_in(
    login: Login, users: UserRegistry
) -> None:
    asking = asyncio.ensure_future(login.user_of(basic("slow", "p"), is_loopback=True))
    asyncio.get_running_loop().call_soon(users.remove, "slow")
    with pytest.raises(NotAuthenticated):
        await asking


async def test_who_does_not_wait_for_the_verdict_is_no_trouble(login: Login) -> None:
    asking = asyncio.ensure_future(login.user_of(basic("slow", "p"), is_loopback=True))
    asyncio.get_running_loop().call_soon(asking.cancel)
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await login.user_of(basic("slow", "p"), is_loopback=True)


async def test_attempts_are_counted_but_not_those_without_credentials(
    login: Login, attempts: LoginAttempts
) -> None:
    await login.user_of(basic("ann", "p:w"), is_loopback=False)
    for header in (basic("ann", "wrong"), basic("local", "p"), None):
        with pytest.raises((NotAuthenticated, NotAuthorised)):
            await login.user_of(header, is_loopback=False)
    assert attempts.of_protocols(Churn())["http"] == (2, 1)
