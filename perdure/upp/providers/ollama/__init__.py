"""Ollama: models on one's own machine, by its /api/chat. Source: UPP-1.2 and Ollama's API."""

from __future__ import annotations

from perdure.upp.provider import ModelReference
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers.ollama.model import OllamaProvider

__all__ = ["ollama"]


def ollama(model_id: str, *, config: ProviderConfig | None = None, short: bool = False) -> ModelReference:
    """Returns a model of an Ollama server, by default the one on this machine.

    In `params`, Ollama's top-level fields (`keep_alive`, `think`, `logprobs`, `top_logprobs`, `truncate`, `shift`,
    `format`) are sent as such, everything else, such as `temperature` and `num_ctx`, as one of its `options`.

    Args:
        model_id: Ollama's name of the model, as "qwen3:8b"; `ollama pull` must have fetched it.
        config: how the server is reached. A key is not needed; if there is one, also as OLLAMA_API_KEY, it is sent.
        short: it answers within a second; see ModelReference.
    """
    return ModelReference(model_id, OllamaProvider(), config=config, short=short)
