"""What is routed when there is no message."""

from routing.routable import Routable


def test_keys_alone_are_no_message_and_have_nothing_else() -> None:
    routable = Routable([b"a", b"b"])
    assert routable.keys == [b"a", b"b"]
    assert not routable.is_message
    assert routable.headers() == {}
    assert routable.property_text("message_id") is None


class Having(Routable):
    """Has headers, decoded already."""

    def headers(self) -> dict[str, object]:
        return {"a": 1, "b": 2}


def test_who_has_the_headers_decoded_may_say_more_than_was_asked() -> None:
    assert Having([]).headers_among({b"a": "a"}) == {"a": 1, "b": 2}
    assert Routable([]).headers_among({b"a": "a"}) == {}
