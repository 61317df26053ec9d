"""Google's Gemini models, over the Gemini API's `generateContent`. Source: UPP-1.2; the Gemini API, v1beta."""

from perdure.upp.providers.google.model import google

__all__ = ["google"]
