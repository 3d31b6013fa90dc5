"""What can be wrong with a delivery tag."""


class UnknownDeliveryTag(Exception):
    """The tag was never given out, or what it stood for has been settled already."""

    def __init__(self, tag: int) -> None:
        super().__init__(f"unknown delivery tag {tag}")
        self.tag = tag
