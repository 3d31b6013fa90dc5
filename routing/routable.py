"""What is routed, as far as exchanges ask: routing keys, and sometimes more.

Most exchanges look at the keys only, so what else a message has is asked for and not
handed over: whoever routes a message decodes nothing that no exchange on its way wants
to see. A `Routable` as it is here has nothing but keys. It stands for any message with
these keys, and a table that keeps messages (`recent_history`) does not keep it.
"""

from mypy_extensions import i64, mypyc_attr


# Tests bring messages of their own. It costs 50 ns for each question that is asked.
@mypyc_attr(allow_interpreted_subclasses=True)
class Routable:
    """Routing keys. A subclass adds the message that they were sent with."""

    def __init__(self, keys: list[bytes]) -> None:
        #: The routing key that was published with; the keys of CC and BCC behind it.
        self.keys = keys
        #: Is there a message, or do only the keys count?
        self.is_message = False
        #: Has a client published it now? If not it was here before: it has been
        #: delayed, or is a dead letter.
        self.is_new = False
        #: Did an exchange keep it to itself, since its id had come before?
        self.is_duplicate = False

    def headers(self) -> dict[str, object]:
        """The header table of the message."""
        return {}

    def headers_among(self, names: dict[bytes, str]) -> dict[str, object]:
        """The headers that have one of these names; others may be there as well.

        `names` maps the octets of each name (UTF-8, surrogate escapes undone) to it, so
        that whoever has the table in octets need not decode what nobody asks for.
        """
        return self.headers()

    def property_text(self, name: str) -> bytes | None:
        """A property by its name (`message_id`, ...) as text; None without it."""
        return None

    def now_ms(self) -> i64:
        """What time it is, in milliseconds; it does not go back."""
        return 0

    def delay_ms(self) -> i64:
        """How long it is to wait before it is routed; 0 or less: not at all."""
        return 0
