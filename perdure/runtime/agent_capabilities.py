"""What an agent can do, in UAMP's words, by what its worker registered. Source: UAMP 1.0, section 9."""

from __future__ import annotations

from typing import Any, cast

from perdure.protocols.uamp_events.capabilities import (
    AudioCapabilities,
    Capabilities,
    FileCapabilities,
    ImageCapabilities,
    ToolCapabilities,
)
from perdure.store.agents import AgentRow

ENDPOINTS = ("/ws", "/events", "/events/stream", "/chat/completions", "/api/content")
_NO_VENDOR = "perdure"
_INPUTS = {"image": "image_input", "audio": "audio_input", "video": "video_input", "file": "document_input"}
_IMAGES = ("jpeg", "png", "gif", "webp")
_DETAIL = ("auto", "low", "high")
_SOUND = ("pcm16", "wav", "mp3")
_FILES = ("application/pdf", "text/plain", "text/markdown", "text/csv", "text/html", "application/json")


def capabilities_of(agent: AgentRow, *, voice: AudioCapabilities | None = None) -> Capabilities:
    """What an agent can do: its model's part, and what its tools and this server add.

    `modalities` are the types of content that it takes or gives; `output_modalities` says which it gives.

    Args:
        agent: as registered.
        voice: what the voice backend adds; None without one.
    """
    model = cast("dict[str, Any]", agent.spec.get("model") or {})
    can = frozenset(cast("list[str]", model.get("can") or ()))
    taken = [name for name, ability in _INPUTS.items() if ability in can]
    given = [name for name, is_given in (("image", "image_output" in can), ("audio", voice is not None)) if is_given]
    return Capabilities(
        id=str(model.get("id") or agent.name),
        provider=str(model.get("provider") or _NO_VENDOR),
        modalities=[*dict.fromkeys(["text", *taken, *given])],
        supports_streaming=True,
        supports_thinking=True,
        supports_caching=False,
        image=_image(takes="image" in taken, gives="image" in given),
        audio=_audio(takes="audio" in taken, voice=voice),
        file=_file() if "file" in taken else None,
        tools=_tools(agent, can),
        endpoints=[*ENDPOINTS],
        extensions={"perdure": {"agent": agent.name}},
    )


def _image(*, takes: bool, gives: bool) -> ImageCapabilities | None:
    if not takes and not gives:
        return None
    return ImageCapabilities(
        formats=[*_IMAGES] if takes else None,
        detail_levels=[*_DETAIL] if takes else None,
        output_formats=["png"] if gives else None,
    )


def _audio(*, takes: bool, voice: AudioCapabilities | None) -> AudioCapabilities | None:
    own = AudioCapabilities(input_formats=[*_SOUND], supports_realtime=False) if takes else None
    if voice is None:
        return own
    return voice if own is None else own.model_copy(update=voice.model_dump(exclude_none=True))


def _file() -> FileCapabilities:
    return FileCapabilities(supported_mime_types=[*_FILES], supports_pdf=True, supports_structured_data=True)


def _tools(agent: AgentRow, can: frozenset[str]) -> ToolCapabilities:
    tools = cast("list[dict[str, Any]]", agent.spec.get("tools") or ())
    names = [str(tool["name"]) for tool in tools if ":" not in tool["name"] and "." not in tool["name"]]
    is_able = "tools" in can
    return ToolCapabilities(
        supports_tools=is_able,
        supports_parallel_tools=is_able,
        supports_streaming_tools=is_able,
        built_in_tools=names,
    )
