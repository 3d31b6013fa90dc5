"""basic.publish as it lies in a read: route and content are found where they stand.

    | method | header | body | method | header | body | ...
    `------- the last -------'`-- says the same again? --

A publisher that sends many messages mostly sends the same method before each, and often
the same header. So the last publish of a read is remembered by its place, and what is
the same in the next one is not looked at again: the route is known, and so is what the
properties say. Two comparisons, eight octets at a time, take the place of a slice, a
hash, a lookup and a walk. Nothing is remembered beyond the read, or across any other
frame.

Content that does not lie whole behind its method is left to `publishing`.
"""

from typing import Final, final

from mypy_extensions import i64

from amqpd.broker.errors import NotImplementedHere
from amqpd.broker.vhosts.routes import Route
from amqpd.protocol.channel import Channel
from amqpd.protocol.frame_shape import check_names
from amqpd.protocol.intake import Chunk
from amqpd.protocol.whole_content import content_end
from amqpd.wire.errors import SyntaxMalformed
from amqpd.wire.frames import (
    FRAME_END,
    HEAD_SIZE,
    OVERHEAD,
    byte_at,
    is_repeated,
    read_u32,
)
from amqpd.wire.properties import walk_properties

# Frame head and end, class, method, ticket, two empty names, flags.
PUBLISH_SIZE_MIN: Final[i64] = OVERHEAD + 9
# From here on the lead is kept, until the connection publishes something else, and
# compared in one go with content that has been cut out: eight octets at a time the
# header of a Celery task, 430 octets, takes 1,070 instructions. One that does not come
# again (an id in it) is not kept: mostly its first octets tell.
LEAD_SIZE_MIN: Final[i64] = 96
# What is larger is not cut out before it is known to be wanted.
CONTENT_SIZE_MAX: Final[i64] = 4096


@final
class PublishReader:
    """Takes the publishes of one connection out of its reads."""

    __slots__ = (
        "_body_size_max",
        "_content",
        "_content_size",
        "_facts",
        "_lead",
        "_lead_size",
        "_method",
        "_method_size",
        "_route",
        "_way",
    )

    def __init__(self, body_size_max: i64) -> None:
        self._body_size_max: i64 = body_size_max
        # Where the last method begins, and its size; 0: there is none.
        self._method: i64 = 0
        self._method_size: i64 = 0
        self._route: Route | None = None
        # The same of its content, and how much of it says all but the body.
        self._content: i64 = 0
        self._content_size: i64 = 0
        self._lead_size: i64 = 0
        # That part itself, once it has come again and is long; else empty.
        self._lead = b""
        self._facts: i64 = 0
        # Where the content goes, if that depends on its headers.
        self._way: Route | None = None

    def repeated_end(self, data: bytes, pos: i64) -> i64:
        """Where the method at `pos` ends if it is the last one again; else 0.

        `data` and the channel are those of the last publish, and nothing was between.
        """
        size = self._method_size
        if size == 0 or i64(len(data)) - pos < size:
            return 0
        route = self._route
        if route is None or not route.is_current():
            return 0
        if is_repeated(data, self._method, pos, size):
            return pos + size
        return 0

    def take(
        self, channel: Channel, chunk: Chunk, pos: i64, size_max: i64, now_ms: i64
    ) -> i64:
        """Take the publish whose method lies at `pos`; return the units it cost.

        `chunk.offset` is behind the method, and is moved behind the content if that
        lies whole behind it. Else the content is to come frame by frame.

        Raises:
            AmqpError, WireError: something about it is wrong.
        """
        self._method_size = 0
        data = chunk.data
        after = chunk.offset
        if after - pos < PUBLISH_SIZE_MIN:
            raise SyntaxMalformed("basic.publish is too short")
        if byte_at(data, after - 2) & 2:
            raise NotImplementedHere("immediate=true")
        raw = data[pos + 13 : after - 2]
        routes = channel.session.routes
        named = byte_at(data, pos + 13) != 0
        route = routes.by_name.get(raw) if named else routes.by_default.get(raw)
        if route is None or not route.is_current():
            check_names(raw)
            route = channel.session.find_route(raw)
        self._method = pos
        self._method_size = after - pos
        self._route = route
        self._content_size = 0
        return self.take_content(channel, chunk, size_max, now_ms)

    def take_content(
        self, channel: Channel, chunk: Chunk, size_max: i64, now_ms: i64
    ) -> i64:
        """Take what lies behind the last method, or that one again; as `take` does."""
        data = chunk.data
        header = chunk.offset
        route = self._route
        assert route is not None
        mandatory = byte_at(data, header - 2) & 1 != 0
        publishing = channel.publishing
        content = self._repeated_content(data, header)
        stop = header + len(content)
        if not content:
            stop = content_end(
                data, header, channel.number, size_max, self._body_size_max
            )
            if stop == 0:
                self._method_size = 0
                publishing.begin(route, mandatory)
                return 0
            chunk.offset = stop
            self._note_content(data, header, stop)
            self._way = None
            if route.asks_headers:
                self._way = channel.session.find_way(route, data, header + HEAD_SIZE)
            content = data[header:stop]
        chunk.offset = stop
        way = route if self._way is None else self._way
        enqueued = publishing.publish(
            way, mandatory, content, None, self._facts, now_ms
        )
        return 2 + enqueued + ((stop - header) >> 10)

    def _note_content(self, data: bytes, header: i64, stop: i64) -> None:
        """Look into the content between `header` and `stop`, and remember it."""
        body = header + read_u32(data, header + 3) + OVERHEAD
        self._content_size = 0
        self._lead = b""
        self._facts = walk_properties(data, header + HEAD_SIZE, body - 1)
        self._content = header
        self._content_size = stop - header
        # The head of the body's frame, too, if there is a body.
        self._lead_size = body - header if body == stop else body - header + HEAD_SIZE

    def _repeated_content(self, data: bytes, header: i64) -> bytes:
        """The content at `header` if only its body is new; else nothing."""
        size = self._content_size
        if size == 0 or i64(len(data)) - header < size:
            return b""
        way = self._way
        if way is not None and not way.is_current():
            return b""
        stop = header + size
        if byte_at(data, stop - 1) != FRAME_END:
            return b""
        if self._lead:
            content = data[header:stop]
            return content if content.startswith(self._lead) else b""
        if not is_repeated(data, self._content, header, self._lead_size):
            return b""
        if size <= CONTENT_SIZE_MAX and self._lead_size >= LEAD_SIZE_MIN:
            self._lead = data[header : header + self._lead_size]
        return data[header:stop]
