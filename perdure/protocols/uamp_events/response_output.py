"""What a response has put out so far: text by message, media, and the calls of tools."""

from __future__ import annotations

from collections.abc import Iterable

from perdure.protocols.uamp_events.content_items import (
    AudioItem,
    ContentItem,
    ImageItem,
    MediaItem,
    TextItem,
    VideoItem,
)
from perdure.protocols.uamp_events.text_purity import TextPurity
from perdure.upp.json_value import encode_base64
from perdure.upp.stream import StreamEvent, StreamEventType

_PCM16_BYTES_PER_SECOND = 2 * 24_000


class ResponseOutput:
    """The output of one response. A message that begins anew takes back what it had said."""

    def __init__(self) -> None:
        """Begin empty."""
        self._texts: dict[str, list[str]] = {}
        self._media: dict[tuple[str, int, StreamEventType], bytearray] = {}
        self._shown: dict[str, MediaItem] = {}
        self._open: dict[str, TextPurity] = {}
        self._transcribed: dict[str, int] = {}

    @property
    def text(self) -> str:
        """All text, as its deltas said it."""
        return "".join(piece for pieces in self._texts.values() for piece in pieces)

    def said(self, message: str) -> str:
        """The text of one message."""
        return "".join(self._texts.get(message, ()))

    def say(self, message: str, text: str) -> str:
        """More text of a message; returns what can be told now, without URLs of stored content."""
        return self._say(message, self._open.setdefault(message, TextPurity()).take(text))

    def end_text(self) -> str:
        """No more text comes for now; returns what was held back."""
        held, self._open = self._open, {}
        return "".join(self._say(message, text.rest()) for message, text in held.items())

    def correct(self, message: str, text: str) -> None:
        """The message's text is this, whatever was said."""
        self._texts[message] = [text]

    def take_back(self, message: str) -> bool:
        """Forget a message; returns whether anything of it was told."""
        self._open.pop(message, None)
        self._transcribed.pop(message, None)
        told = bool(self._texts.get(message))
        if message in self._texts:
            self._texts[message] = []
        for place in [place for place in self._media if place[0] == message]:
            del self._media[place]
            told = True
        return told

    def add_media(self, message: str, event: StreamEvent) -> None:
        """More bytes of an image, of sound or video."""
        self._media.setdefault((message, event.index, event.type), bytearray()).extend(event.delta.data or b"")

    def show(self, items: Iterable[MediaItem]) -> None:
        """The agent has chosen this stored media to be shown, each piece once."""
        self._shown.update({item.content_id or "": item for item in items})

    def audio_ms(self, message: str) -> float | None:
        """How long the message's sound is, taken as pcm16 at 24 kHz; None if it has none."""
        sizes = [
            len(data)
            for (of, _, kind), data in self._media.items()
            if of == message and kind is StreamEventType.AUDIO_DELTA
        ]
        return sum(sizes) * 1000 / _PCM16_BYTES_PER_SECOND if sizes else None

    def untranscribed(self, message: str) -> str:
        """The text of a message with sound that comes now for the first time; none of one without."""
        if self.audio_ms(message) is None:
            return ""
        said = self.said(message)
        known, self._transcribed[message] = self._transcribed.get(message, 0), len(said)
        return said[known:]

    def _say(self, message: str, told: str) -> str:
        if told:
            self._texts.setdefault(message, []).append(told)
        return told

    def items(self) -> list[ContentItem]:
        """One text item with all text, if there is any, the media after it, and at last what was chosen to be shown."""
        items: list[ContentItem] = [TextItem(text=self.text)] if self.text else []
        for (_, _, kind), data in self._media.items():
            encoded = encode_base64(bytes(data))
            if kind is StreamEventType.IMAGE_DELTA:
                items.append(ImageItem(image=encoded))
            elif kind is StreamEventType.AUDIO_DELTA:
                items.append(AudioItem(audio=encoded, format="pcm16"))
            else:
                items.append(VideoItem(video=encoded))
        return [*items, *self._shown.values()]
