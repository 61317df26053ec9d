"""The parts of an answer while it comes: runs of text in one piece, everything else one by one.

A text with a thought signature is a piece of its own: Google asks that it be sent back apart.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from perdure.upp.content import AssistantContent, AudioBlock, ImageBlock, ReasoningBlock, TextBlock, VideoBlock
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.media_source import BytesSource
from perdure.upp.providers.google.endpoint import PROVIDER
from perdure.upp.providers.google.wire import Blob, Part

Kind: TypeAlias = Literal["text", "thought", "media", "call", "other"]


@dataclass(slots=True)
class Piece:
    """One part, or several texts in a row.

    Attributes:
        part: as it came; of a run of texts, the first.
        texts: what it adds to the message's text or reasoning.
        media: of a media piece.
    """

    kind: Kind
    part: JSONObject
    texts: list[str] = field(default_factory=list[str])
    media: ImageBlock | AudioBlock | VideoBlock | None = None

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.texts)

    @property
    def signed(self) -> bool:
        """Whether it has a thought signature."""
        return "thoughtSignature" in self.part

    def continues(self, earlier: Piece) -> bool:
        """Returns whether the two are one run of text."""
        same = self.kind == earlier.kind and self.kind in ("text", "thought")
        return same and not self.signed and not earlier.signed


def read_piece(part: Part, raw: JSONObject) -> Piece:
    """Returns a part as a piece. Raises UPPError INVALID_RESPONSE if its media is not base64."""
    if part.functionCall is not None:
        return Piece("call", raw)
    if part.thought:
        return Piece("thought", raw, [part.text or ""])
    if part.inlineData is not None:
        return _media_piece(part.inlineData, raw)
    if part.executableCode is not None:
        return Piece("other", raw, [_fenced(part.executableCode.code, (part.executableCode.language or "").lower())])
    if part.codeExecutionResult is not None:
        return Piece("other", raw, [_fenced(part.codeExecutionResult.output or "", "")])
    if part.text is not None:
        return Piece("text", raw, [part.text])
    return Piece("other", raw)


def content_of(pieces: Sequence[Piece]) -> list[AssistantContent]:
    """Returns the message's blocks: reasoning, then text and media in their order; texts in a row are one block."""
    reasoning: list[AssistantContent] = []
    content: list[AssistantContent] = []
    for kind, text, media in _runs(pieces):
        if media is not None:
            content.append(media)
        elif text and kind == "thought":
            reasoning.append(ReasoningBlock(text))
        elif text:
            content.append(TextBlock(text))
    return [*reasoning, *content]


def parts_to_send(pieces: Sequence[Piece]) -> list[JSONObject]:
    """Returns the parts as they go back to Gemini: thoughts only where they are signed, empty texts likewise."""
    return [_whole_part(piece) for piece in _sent(pieces)]


def layout_of(pieces: Sequence[Piece]) -> list[JSONObject]:
    """Returns the order of the parts to send, in the form that `layout` describes."""
    return [_entry(piece) for piece in _sent(pieces)]


def _runs(pieces: Sequence[Piece]) -> list[tuple[Kind, str, ImageBlock | AudioBlock | VideoBlock | None]]:
    runs: list[tuple[Kind, str, ImageBlock | AudioBlock | VideoBlock | None]] = []
    for piece in pieces:
        if runs and piece.kind == runs[-1][0] and piece.kind in ("text", "thought"):
            runs[-1] = (piece.kind, runs[-1][1] + piece.text, None)
        else:
            runs.append((piece.kind, piece.text, piece.media))
    return runs


def _sent(pieces: Sequence[Piece]) -> list[Piece]:
    return [
        piece for piece in pieces if piece.signed or (piece.kind != "thought" and (piece.kind != "text" or piece.text))
    ]


def _whole_part(piece: Piece) -> JSONObject:
    return piece.part | {"text": piece.text} if piece.kind == "text" else piece.part


def _entry(piece: Piece) -> JSONObject:
    signature: JSONObject = {"thoughtSignature": piece.part["thoughtSignature"]} if piece.signed else {}
    match piece.kind:
        case "text":
            return {"text": len(piece.text)} | signature
        case "media":
            return {"media": True} | signature
        case "call":
            return {"call": True}
        case "thought":
            return {"part": piece.part}
        case "other":
            return {"part": piece.part, "text": len(piece.text)}


def _media_piece(blob: Blob, raw: JSONObject) -> Piece:
    try:
        data = base64.b64decode(blob.data, validate=True)
    except (binascii.Error, ValueError):
        raise UPPError("Gemini's answer holds media that is no base64", ErrorCode.INVALID_RESPONSE, PROVIDER) from None
    match blob.mimeType.partition("/")[0]:
        case "image":
            return Piece("media", raw, media=ImageBlock(BytesSource(data), blob.mimeType))
        case "audio":
            return Piece("media", raw, media=AudioBlock(data, blob.mimeType))
        case "video":
            return Piece("media", raw, media=VideoBlock(data, blob.mimeType))
        case _:
            return Piece("other", raw)


def _fenced(text: str, language: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```" if text.strip() else ""
