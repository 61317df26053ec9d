"""What a response has put out so far: text by message, media, and the calls of tools."""

from __future__ import annotations

from perdure.protocols.uamp_events.content_items import AudioItem, ContentItem, ImageItem, TextItem, VideoItem
from perdure.upp.json_value import encode_base64
from perdure.upp.stream import StreamEvent, StreamEventType

_PCM16_BYTES_PER_SECOND = 2 * 24_000


class ResponseOutput:
    """The output of one response. A message that begins anew takes back what it had said."""

    def __init__(self) -> None:
        """Begin empty."""
        self._texts: dict[str, list[str]] = {}
        self._media: dict[tuple[str, int, StreamEventType], bytearray] = {}

    @property
    def text(self) -> str:
        """All text, as its deltas said it."""
        return "".join(piece for pieces in self._texts.values() for piece in pieces)

    def said(self, message: str) -> str:
        """The text of one message."""
        return "".join(self._texts.get(message, ()))

    def say(self, message: str, text: str) -> None:
        """More text of a message."""
        self._texts.setdefault(message, []).append(text)

    def correct(self, message: str, text: str) -> None:
        """The message's text is this, whatever was said."""
        self._texts[message] = [text]

    def take_back(self, message: str) -> bool:
        """Forget a message; returns whether anything of it was told."""
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

    def audio_ms(self, message: str) -> float | None:
        """How long the message's sound is, taken as pcm16 at 24 kHz; None if it has none."""
        sizes = [
            len(data)
            for (of, _, kind), data in self._media.items()
            if of == message and kind is StreamEventType.AUDIO_DELTA
        ]
        return sum(sizes) * 1000 / _PCM16_BYTES_PER_SECOND if sizes else None

    def items(self) -> list[ContentItem]:
        """One text item with all text, if there is any, and the media after it."""
        items: list[ContentItem] = [TextItem(text=self.text)] if self.text else []
        for (_, _, kind), data in self._media.items():
            encoded = encode_base64(bytes(data))
            if kind is StreamEventType.IMAGE_DELTA:
                items.append(ImageItem(image=encoded))
            elif kind is StreamEventType.AUDIO_DELTA:
                items.append(AudioItem(audio=encoded, format="pcm16"))
            else:
                items.append(VideoItem(video=encoded))
        return items
