"""OpenRouter's ways of speaking OpenAI's two APIs."""

from __future__ import annotations

from perdure.upp.errors import ErrorCode
from perdure.upp.json_value import JSONObject
from perdure.upp.provider import LLMCapabilities
from perdure.upp.providers.openai_completions.dialect import Dialect
from perdure.upp.providers.openai_responses.dialect import OPENAI as OPENAI_RESPONSES
from perdure.upp.providers.openai_responses.dialect import Dialect as ResponsesDialect

PROVIDER = "openrouter"
BASE_URL = "https://openrouter.ai/api/v1"
KEY_VARIABLES = ("OPENROUTER_API_KEY",)
CAPABILITIES = LLMCapabilities(
    image_input=True, document_input=True, video_input=True, audio_input=True, image_output=True
)


def classify(status: int | None, error: JSONObject) -> ErrorCode | None:
    """Returns CONTENT_FILTERED for input that moderation flagged, which has the status of a bad key otherwise."""
    metadata = error.get("metadata")
    flagged = isinstance(metadata, dict) and ("reasons" in metadata or "flagged_input" in metadata)
    return ErrorCode.CONTENT_FILTERED if flagged else None


def classify_responses(status: int | None, error: JSONObject) -> ErrorCode | None:
    """Returns what `classify` says, or what the error means on the Responses API."""
    return classify(status, error) or OPENAI_RESPONSES.classify(status, error)


COMPLETIONS = Dialect(
    provider=PROVIDER,
    base_url=BASE_URL,
    key_variables=KEY_VARIABLES,
    capabilities=CAPABILITIES,
    output_modalities=frozenset({"text", "image", "audio"}),
    url_documents=True,
    cache_control=True,
    sends_images_back=True,
    classify=classify,
)
"""OpenRouter's Chat Completions."""

RESPONSES = ResponsesDialect(
    provider=PROVIDER,
    base_url=BASE_URL,
    key_variables=KEY_VARIABLES,
    capabilities=CAPABILITIES,
    item_ids=True,
    keeps_answers=False,
    reasoning_models=OPENAI_RESPONSES.reasoning_models,
    modalities=frozenset({"image"}),
    classify=classify_responses,
)
"""OpenRouter's Responses API, which is in beta and keeps nothing."""
