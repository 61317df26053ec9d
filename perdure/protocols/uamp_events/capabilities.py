"""Capabilities of models, agents and clients, one structure for all, and what two sides have in common.

Source: UAMP 1.0, section 9.
"""

from __future__ import annotations

from pydantic import Field

from perdure.protocols.uamp_events.wire import WireModel
from perdure.upp.json_value import JSONObject


class ImageCapabilities(WireModel):
    """Of images."""

    formats: list[str] | None = None
    max_size_bytes: int | None = None
    detail_levels: list[str] | None = None
    max_images_per_request: int | None = None


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


def common_modalities(server: Capabilities, client: Capabilities | None) -> list[str]:
    """The modalities of both sides, in the server's order; all of the server's if the client declared nothing."""
    if client is None:
        return list(server.modalities)
    return [modality for modality in server.modalities if modality in client.modalities]


def shows_thinking(client: Capabilities | None) -> bool:
    """Whether thinking is sent to a client: only one that says that it does not support it gets none."""
    return client is None or client.supports_thinking or "supports_thinking" not in client.model_fields_set
