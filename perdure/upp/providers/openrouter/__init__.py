"""OpenRouter: many vendors' models behind one address."""

from perdure.upp.providers.openrouter.provider import openrouter

__all__ = ["openrouter"]
