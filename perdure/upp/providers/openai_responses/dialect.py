"""What differs between the services that speak the Responses API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from perdure.upp.provider import LLMCapabilities
from perdure.upp.providers._errors import Classify
from perdure.upp.providers.openai_responses.failures import classify as classify_openai


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One service.

    Attributes:
        provider: the provider's name; also the namespace of messages' and tools' metadata.
        base_url: where the service is, without the endpoint's path.
        key_variables: the environment variables that may hold the key, the first that is set wins.
        capabilities: what the service takes; media that it does not take are refused.
        headers: sent with each request, besides the key.
        item_ids: whether the assistant's items need an id and a status, and results an id.
        keeps_answers: whether the service keeps an answer unless it is told not to. It is told not to, as the caller
            holds the history.
        reasoning_models: which models may be asked for their encrypted reasoning; others refuse the request.
        modalities: what an answer may be asked to hold, besides text.
        checks_open_schemas: whether the service refuses arrays without "items" and tools without "properties".
        classify: says what the service's errors mean beyond what every vendor's do.
    """

    provider: str
    base_url: str
    key_variables: tuple[str, ...]
    capabilities: LLMCapabilities
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    item_ids: bool = False
    keeps_answers: bool = True
    reasoning_models: re.Pattern[str] | None = None
    modalities: frozenset[str] = frozenset()
    checks_open_schemas: bool = False
    classify: Classify = classify_openai


OPENAI = Dialect(
    provider="openai",
    base_url="https://api.openai.com/v1",
    key_variables=("OPENAI_API_KEY",),
    capabilities=LLMCapabilities(image_input=True, document_input=True),
    reasoning_models=re.compile(r"(?:^|[/:])(?:o\d|gpt-(?:[5-9]|\d{2,})|codex-)(?!.*-chat)"),
    checks_open_schemas=True,
)
"""OpenAI itself, and every compatible server that `ProviderConfig.base_url` names."""
