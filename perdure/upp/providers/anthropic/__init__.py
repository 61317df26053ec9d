"""Claude through Anthropic's Messages API."""

from perdure.upp.providers.anthropic.provider import anthropic

__all__ = ["anthropic"]
