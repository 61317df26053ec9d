"""How servers that speak Chat Completions differ: name, address, keys, and what they can take and give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from perdure.upp.provider import LLMCapabilities
from perdure.upp.providers._errors import Classify


@dataclass(frozen=True, slots=True)
class Dialect:
    """One vendor's way of speaking Chat Completions.

    Attributes:
        provider: the provider's name, as messages' metadata and errors carry it.
        base_url: the vendor's own address, without the endpoint's path.
        key_variables: the environment variables that may hold the key.
        capabilities: what the models can do. Audio and video are sent only where it says so.
        output_modalities: what an answer may hold.
        url_documents: whether the vendor fetches PDF documents from URLs.
        cache_control: whether `metadata.<provider>.cache_control` marks a message's last text part for caching.
        sends_images_back: whether an assistant message may carry the images that the model made.
        checks_open_schemas: whether the vendor refuses arrays without "items" and tools without "properties".
        max_call_id: the longest id of a tool call that the vendor's own address accepts; None means any.
        headers: sent with each request.
        classify: says what the vendor's errors mean beyond what every vendor's do.
    """

    provider: str
    base_url: str
    key_variables: tuple[str, ...]
    capabilities: LLMCapabilities
    output_modalities: frozenset[str] = frozenset({"text"})
    url_documents: bool = False
    cache_control: bool = False
    sends_images_back: bool = False
    checks_open_schemas: bool = False
    max_call_id: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    classify: Classify | None = None


OPENAI = Dialect(
    provider="openai",
    base_url="https://api.openai.com/v1",
    key_variables=("OPENAI_API_KEY",),
    capabilities=LLMCapabilities(image_input=True, document_input=True),
    output_modalities=frozenset({"text", "audio"}),
    checks_open_schemas=True,
    max_call_id=40,
)
"""OpenAI itself, and every compatible server that `ProviderConfig.base_url` names."""
