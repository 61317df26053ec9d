"""The provider OpenRouter. Source: OpenRouter, API reference; UPP-1.2, providers with several APIs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.provider import BoundLLMModel, ModelReference
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.openai_completions import CompletionsModel
from perdure.upp.providers.openai_responses import ResponsesModel
from perdure.upp.providers.openrouter.dialect import COMPLETIONS, PROVIDER, RESPONSES


class OpenRouter:
    """OpenRouter's models, behind either of its APIs."""

    name = PROVIDER
    version = "1"

    def bind(self, model_id: str, options: Mapping[str, object]) -> BoundLLMModel:
        """Returns the model. Raises UPPError INVALID_REQUEST if `api` is neither "completions" nor "responses"."""
        match options.get("api", "completions"):
            case "completions":
                return CompletionsModel(model_id, COMPLETIONS)
            case "responses":
                return ResponsesModel(model_id, RESPONSES)
            case other:
                problem = f'api is {other!r}; it must be "completions" or "responses"'
                raise UPPError(problem, ErrorCode.INVALID_REQUEST, PROVIDER)


def openrouter(
    model_id: str,
    *,
    api: Literal["completions", "responses"] = "completions",
    config: ProviderConfig | None = None,
    short: bool = False,
) -> ModelReference:
    """Returns a model of OpenRouter, as `openrouter("anthropic/claude-sonnet-4.5")`.

    Args:
        model_id: vendor and model, as OpenRouter lists them.
        api: which of OpenRouter's APIs is spoken; "responses" is OpenRouter's beta.
        config: how OpenRouter is reached; the key is by default that of OPENROUTER_API_KEY. The headers HTTP-Referer
            and X-Title name the application on OpenRouter's pages.
        short: it answers within a second; see ModelReference.
    """
    return ModelReference(model_id, OpenRouter(), {"api": api}, config, short)
