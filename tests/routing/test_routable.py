"""What is routed when there is no message."""

from routing.routable import Routable


def test_keys_alone_are_no_message_and_have_nothing_else() -> None:
    routable = Routable([b"a", b"b"])
    assert routable.keys == [b"a", b"b"]
    assert not routable.is_message
    assert routable.headers() == {}
    assert routable.property_text("message_id") is None
