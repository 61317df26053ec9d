"""OpenAI's models, by its Responses API or by its older Chat Completions API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perdure.errors import InvalidInput
from perdure.upp.provider import BoundLLMModel, ModelReference
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers import openai_completions, openai_responses
from perdure.upp.providers._answer import refuse

__all__ = ["openai"]

_APIS = ("responses", "completions")


def openai(
    model_id: str, *, api: str = "responses", config: ProviderConfig | None = None, short: bool = False
) -> ModelReference:
    """Returns a model of OpenAI's, or of a server that speaks one of its APIs.

    Args:
        model_id: OpenAI's name of the model.
        api: "responses", or "completions" for Chat Completions, which most other servers speak.
        config: how OpenAI is reached; by default with the key in OPENAI_API_KEY.
        short: it answers within a second; see ModelReference.

    Raises:
        InvalidInput: the API is neither.
    """
    if api not in _APIS:
        raise InvalidInput(f"api {api!r} must be one of {', '.join(_APIS)}")
    return ModelReference(model_id, OpenAI(), {"api": api}, config, short)


@dataclass(frozen=True, slots=True)
class OpenAI:
    """The provider of OpenAI's models; its one option is `api`."""

    name: str = "openai"
    version: str = "1"

    def bind(self, model_id: str, options: Mapping[str, object]) -> BoundLLMModel:
        api = options.get("api", "responses")
        if api not in _APIS or options.keys() - {"api"}:
            raise refuse(f"options {dict(options)!r}: there is only api, one of {', '.join(_APIS)}", self.name)
        if api == "completions":
            return openai_completions.CompletionsModel(model_id, openai_completions.OPENAI)
        return openai_responses.ResponsesModel(model_id, openai_responses.OPENAI)
