"""Which pages of other origins may use the API, and what their browsers are told."""

import pytest

from amqpd.http.cors import Origins

ALLOWED = Origins(("https://a.example", "https://b.example"), 60)


@pytest.mark.parametrize(
    ("origins", "origin", "is_allowed"),
    [
        (Origins(), "https://a.example", False),
        (ALLOWED, "https://a.example", True),
        (ALLOWED, "https://b.example", True),
        (ALLOWED, "https://a.example.evil", False),
        (ALLOWED, "null", False),
        (Origins(("*",)), "https://c.example", True),
    ],
)
def test_an_origin_that_may_is_told_its_own_name(
    origins: Origins, origin: str, is_allowed: bool
) -> None:
    headers = origins.headers({"Origin": origin})
    assert headers.get("Access-Control-Allow-Origin") == (
        origin if is_allowed else None
    )
    assert ("Access-Control-Allow-Credentials" in headers) == is_allowed
    # Whoever keeps answers must know that they are not for everybody.
    assert "origin" in headers["Vary"]


def test_what_comes_from_no_page_is_told_nothing() -> None:
    assert set(ALLOWED.headers({}, "GET")) == {"Vary"}


def test_who_asks_first_is_told_what_may_be_done() -> None:
    said = {"Origin": "https://a.example"}
    wanted = {**said, "Access-Control-Request-Headers": "authorization"}
    headers = ALLOWED.headers(wanted, "GET, HEAD, OPTIONS")
    assert headers["Access-Control-Allow-Methods"] == "GET, HEAD, OPTIONS"
    assert headers["Access-Control-Allow-Headers"] == "authorization"
    assert headers["Access-Control-Max-Age"] == "60"
    assert "Access-Control-Allow-Headers" not in ALLOWED.headers(said, "GET")
    assert "Access-Control-Max-Age" not in ALLOWED.headers(wanted)
