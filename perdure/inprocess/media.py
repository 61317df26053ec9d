"""Media that tools have returned in this process, by id: where no store keeps it, memory does, as long as there is room."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

from perdure.errors import UnknownContent
from perdure.uap.content_refs import references, with_content
from perdure.uap.shown_media import media_to_show, with_shown_media
from perdure.upp.messages import Message
from perdure.upp.provider import LLMCapabilities, LLMRequest
from perdure.upp.tool_call import ToolExecution
from perdure.upp.tool_media import ToolMedia

_MOST_BYTES = 256 * 1024 * 1024


class MemoryContents:
    """Media by id; a `ContentSource`. The longest unused goes first where there is too much."""

    def __init__(self, *, most_bytes: int = _MOST_BYTES, max_bytes: int = 64 * 1024 * 1024) -> None:
        """Keep at most so many bytes, each piece of at most `max_bytes`."""
        self._media: OrderedDict[str, ToolMedia] = OrderedDict()
        self._size = 0
        self._most_bytes = most_bytes
        self._max_bytes = max_bytes

    @property
    def max_bytes(self) -> int:
        """See `ContentSource`."""
        return self._max_bytes

    def keep(self, execution: ToolExecution) -> ToolExecution:
        """Keep the media of a tool call; returns the call."""
        for item in execution.content.media if execution.content is not None else ():
            if item.data is not None and item.content_id is not None:
                self._put(item.content_id, item)
        return execution

    async def find(self, content_id: str) -> ToolMedia | None:
        """See `ContentSource`."""
        found = self._get(content_id)
        return None if found is None else replace(found, data=None, size_bytes=len(found.data or b""))

    async def read(self, content_id: str) -> ToolMedia | None:
        """See `ContentSource`."""
        return self._get(content_id)

    def resolved(self, messages: Sequence[Message]) -> list[Message]:
        """Messages with the bytes that they refer to; the very objects if they refer to none.

        Raises:
            UnknownContent: something is not there.
            InvalidInput: media is of a kind that the block which refers to it cannot be.
        """
        media = {ident: self._wanted(ident) for ident in references(messages)}
        return [with_content(message, media) for message in messages]

    def shown(self, request: LLMRequest, capabilities: LLMCapabilities) -> LLMRequest:
        """A request in which the model sees what tools returned for it."""
        found = {ident: self._get(ident) for ident in media_to_show(request.messages)}
        media = {ident: item for ident, item in found.items() if item is not None}
        return replace(request, messages=with_shown_media(request.messages, media, capabilities))

    def _wanted(self, ident: str) -> ToolMedia:
        found = self._get(ident)
        if found is None:
            raise UnknownContent(
                f"there is no content {ident} in this process: give the bytes, or run the agent inside "
                "`async with connect():`, where what was uploaded to /api/content can be reached"
            )
        return found

    def _get(self, content_id: str) -> ToolMedia | None:
        found = self._media.get(content_id.lower())
        if found is not None:
            self._media.move_to_end(content_id.lower())
        return found

    def _put(self, ident: str, media: ToolMedia) -> None:
        before = self._media.pop(ident, None)
        self._size += len(media.data or b"") - len((before.data if before else None) or b"")
        self._media[ident] = media
        while self._size > self._most_bytes and len(self._media) > 1:
            _, gone = self._media.popitem(last=False)
            self._size -= len(gone.data or b"")


kept_media = MemoryContents()
"""All agents of a process share it: one may be handed what another's tool has made."""
