"""The text of an unknown delivery tag is RabbitMQ's."""

from confirms.errors import UnknownDeliveryTag


def test_an_unknown_tag_is_named() -> None:
    error = UnknownDeliveryTag(7)
    assert error.tag == 7
    assert str(error) == "unknown delivery tag 7"
