"""What a client has sent of a turn until it asks for a response. Source: UAMP 1.0, sections 5.6 and 8.5.1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from perdure.protocols.uamp_events.client_events import (
    InputAudio,
    InputEvent,
    InputFile,
    InputImage,
    InputText,
    InputVideo,
)
from perdure.protocols.uamp_events.content_ids import identified
from perdure.protocols.uamp_events.content_items import (
    AudioItem,
    ContentItem,
    FileItem,
    ImageItem,
    TextItem,
    VideoItem,
    WireMessage,
)
from perdure.protocols.uamp_events.faults import Code, EventRefused
from perdure.protocols.uamp_events.media import Media, decode, url_of, wire_media
from perdure.upp.json_value import JSONObject, JSONValue, encode_base64

MAX_BYTES = 32 * 1024 * 1024
"""What one turn may hold; larger media goes through content URLs."""


@dataclass(frozen=True, slots=True)
class TurnInput:
    """All of a turn's input.

    Attributes:
        messages: in order; consecutive inputs of the user are one message, the last one is normally the user's. Of
            role user and assistant only, except where they came in `history`.
        system: texts that extend the instructions, in order.
        history: the conversation that stands in place of the session's; None if the session's goes on.
        payment_token: of this interaction; it wins over the session's.
        context: routing metadata of the inputs, later ones over earlier ones.
    """

    messages: list[WireMessage] = field(default_factory=list[WireMessage])
    system: list[str] = field(default_factory=list[str])
    history: list[WireMessage] | None = None
    payment_token: str | None = field(default=None, repr=False)
    context: JSONObject = field(default_factory=dict[str, JSONValue])


@dataclass(slots=True)
class _Clip:
    """A clip of which more is to come."""

    format: str
    content_id: str | None
    data: bytearray


class InputBuffer:
    """The inputs of one session since its last response."""

    def __init__(self, draw_id: Callable[[], str], *, max_bytes: int = MAX_BYTES) -> None:
        """Begin empty.

        Args:
            draw_id: gives a UUID to media that has no content id.
            max_bytes: of text and media that are held; more is refused.
        """
        self._draw_id = draw_id
        self._max_bytes = max_bytes
        self._bytes = 0
        self._messages: list[WireMessage] = []
        self._system: list[str] = []
        self._history: list[WireMessage] | None = None
        self._payment_token: str | None = None
        self._context: JSONObject = {}
        self._clip: _Clip | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to respond to."""
        return not self._messages and not self._system and self._history is None and self._clip is None

    @property
    def system(self) -> list[str]:
        """The texts of role system, in order."""
        return list(self._system)

    def add(self, event: InputEvent) -> None:
        """Take in an input; nothing is responded to.

        Raises:
            EventRefused: it cannot be used, or there is too much; the buffer stays as it was.
        """
        size = _size(event)
        if self._bytes + size > self._max_bytes:
            raise EventRefused(
                Code.INPUT_TOO_LARGE,
                f"a turn may hold {self._max_bytes} bytes; upload larger media to /api/content and send its URL",
                event_id=event.event_id,
                session_id=event.session_id,
            )
        match event:
            case InputText():
                self._add_text(event)
            case InputAudio():
                self._add_audio(event)
            case _:
                self._end_clip()
                self._say("user", self._item(event))
        self._bytes += size

    def drain(self) -> TurnInput:
        """All of it, an unfinished clip too; the buffer is empty then."""
        self._end_clip()
        turn = TurnInput(self._messages, self._system, self._history, self._payment_token, self._context)
        self.__init__(self._draw_id, max_bytes=self._max_bytes)
        return turn

    def _add_text(self, event: InputText) -> None:
        self._end_clip()
        if event.payment_token is not None:
            self._payment_token = event.payment_token
        self._context = {**self._context, **(event.context or {})}
        items: list[ContentItem] = [TextItem(text=event.text)]
        if event.messages is not None:
            last = event.messages[-1] if event.messages else None
            repeats = last is not None and last.role == event.role == "user" and last.text() == event.text
            self._history = [self._identify(item) for item in (event.messages[:-1] if repeats else event.messages)]
            items = self._identify(last).items() if repeats and last is not None else items
            if not repeats and not event.text:
                return
        if event.role == "system":
            self._system.append(event.text)
        else:
            self._say(event.role, *items)

    def _add_audio(self, event: InputAudio) -> None:
        clip = self._clip
        if url_of(event.audio) is not None:
            self._end_clip()
            self._say("user", self._item(event))
            return
        data = decode(str(event.audio), "input.audio")
        if clip is not None and clip.format != event.format:
            self._end_clip()
            clip = None
        if clip is None:
            clip = self._clip = _Clip(event.format, event.content_id, bytearray())
        clip.data += data
        clip.content_id = clip.content_id or event.content_id
        if event.is_final is not False:
            self._end_clip()

    def _end_clip(self) -> None:
        if self._clip is None:
            return
        clip, self._clip = self._clip, None
        audio = AudioItem(audio=encode_base64(bytes(clip.data)), format=clip.format, content_id=clip.content_id)
        self._say("user", identified(audio, self._draw_id))

    def _item(self, event: InputEvent) -> ContentItem:
        return identified(_item(event), self._draw_id)

    def _identify(self, message: WireMessage) -> WireMessage:
        if message.content_items is None:
            return message
        items = [identified(item, self._draw_id) for item in message.content_items]
        return message.model_copy(update={"content_items": items})

    def _say(self, role: Literal["user", "assistant"], *items: ContentItem) -> None:
        last = self._messages[-1] if self._messages else None
        joined = [*last.items(), *items] if last is not None and last.role == role else list(items)
        message = WireMessage(role=role, content_items=joined)
        if last is not None and last.role == role:
            self._messages[-1] = message
        else:
            self._messages.append(message)


def _item(event: InputEvent) -> ContentItem:
    """The content item of an input. Source: section 8.5.1, the table."""
    match event:
        case InputText():
            return TextItem(text=event.text)
        case InputImage():
            media = wire_media(event.image)
            return ImageItem(image=media, format=event.format, detail=event.detail, content_id=event.content_id)
        case InputAudio():
            return AudioItem(audio=wire_media(event.audio), format=event.format, content_id=event.content_id)
        case InputVideo():
            return VideoItem(video=wire_media(event.video), format=event.format, content_id=event.content_id)
        case InputFile():
            return FileItem(
                file=wire_media(event.file),
                filename=event.filename,
                mime_type=event.mime_type,
                content_id=event.content_id,
            )


def _size(event: InputEvent) -> int:
    def of(media: Media) -> int:
        return len(media) if isinstance(media, str) else len(media.url)

    match event:
        case InputText():
            told = sum(len(str(message.to_json())) for message in event.messages or ())
            return len(event.text.encode("utf-8", "surrogatepass")) + told
        case InputImage():
            return of(event.image)
        case InputAudio():
            return of(event.audio)
        case InputVideo():
            return of(event.video)
        case InputFile():
            return of(event.file)
