"""Messages that were read back, as records have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from store.stored_message import MessageMaker


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message of one queue that was read back."""

    seq: int
    lane: int
    envelope: bytes
    content: bytes
    body: bytes | None
    enqueued_ms: int
    expires_ms: int


class StoredMessages(MessageMaker[StoredMessage]):
    """Leaves them as they are."""

    def make(
        self,
        seq: int,
        lane: int,
        envelope: bytes,
        content: bytes,
        body: bytes | None,
        enqueued_ms: int,
        expires_ms: int,
    ) -> StoredMessage:
        return StoredMessage(
            seq, lane, envelope, content, body, enqueued_ms, expires_ms
        )


AS_STORED: Final = StoredMessages()
