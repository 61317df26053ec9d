"""Capabilities of models, agents and clients, one structure for all, and what two sides have in common.

Source: UAMP 1.0, section 9.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from perdure.protocols.uamp_events.wire import WireModel
from perdure.upp.json_value import JSONObject


class ImageCapabilities(WireModel):
    """Of images. `output_formats`, of those that are made, is an addition."""

    formats: list[str] | None = None
    max_size_bytes: int | None = None
    detail_levels: list[str] | None = None
    max_images_per_request: int | None = None
    output_formats: list[str] | None = None


class AudioCapabilities(WireModel):
    """Of sound; sample rates in Hz."""

    input_formats: list[str] | None = None
    output_formats: list[str] | None = None
    sample_rates: list[int] | None = None
    supports_realtime: bool | None = None
    voices: list[str] | None = None


class FileCapabilities(WireModel):
    """Of files."""

    supported_mime_types: list[str] | None = None
    supports_pdf: bool | None = None
    supports_code: bool | None = None
    supports_structured_data: bool | None = None


class ToolCapabilities(WireModel):
    """Of tools."""

    supports_tools: bool | None = None
    supports_parallel_tools: bool | None = None
    supports_streaming_tools: bool | None = None
    max_tools_per_request: int | None = None
    built_in_tools: list[str] | None = None


class Capabilities(WireModel):
    """What a side can do. Six members are required, and always sent; a client may leave some out."""

    id: str = "unknown"
    provider: str = "unknown"
    modalities: list[str] = Field(default_factory=lambda: ["text"])
    supports_streaming: bool = False
    supports_thinking: bool = False
    supports_caching: bool = False
    context_window: int | None = None
    max_output_tokens: int | None = None
    image: ImageCapabilities | None = None
    audio: AudioCapabilities | None = None
    file: FileCapabilities | None = None
    tools: ToolCapabilities | None = None
    provides: list[str] | None = None
    widgets: list[str] | None = None
    endpoints: list[str] | None = None
    extensions: JSONObject | None = None


def output_modalities(server: Capabilities) -> list[str]:
    """What a response may be asked to hold: text, images if the model makes them, sound if there is a form for it."""
    speaks = bool(server.audio and server.audio.output_formats)
    draws = bool(server.image and server.image.output_formats)
    return ["text", *(name for name, is_made in (("image", draws), ("audio", speaks)) if is_made)]


def common_modalities(asked: Sequence[str], server: Capabilities, client: Capabilities | None) -> list[str]:
    """Of what was asked for, what the server can answer with and the client can take, which takes all if it declared nothing.

    Source: UAMP 1.0, section 9.
    """
    taken = asked if client is None or "modalities" not in client.model_fields_set else client.modalities
    return [name for name in output_modalities(server) if name in asked and name in taken]


def shows_thinking(client: Capabilities | None) -> bool:
    """Whether thinking is sent to a client: only one that says that it does not support it gets none."""
    return client is None or client.supports_thinking or "supports_thinking" not in client.model_fields_set
