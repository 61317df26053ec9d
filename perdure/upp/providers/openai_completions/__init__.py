"""Chat Completions: OpenAI's older API, which most other servers speak too."""

from perdure.upp.providers.openai_completions.dialect import OPENAI, Dialect
from perdure.upp.providers.openai_completions.model import CompletionsModel

__all__ = ["OPENAI", "CompletionsModel", "Dialect"]
