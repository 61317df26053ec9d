"""Providers: adapters of `perdure.upp.provider` to vendors, and the scripted model."""

from perdure.upp.providers.anthropic import anthropic
from perdure.upp.providers.google import google
from perdure.upp.providers.ollama import ollama
from perdure.upp.providers.openai import openai
from perdure.upp.providers.openrouter import openrouter
from perdure.upp.providers.scripted import scripted

__all__ = ["anthropic", "google", "ollama", "openai", "openrouter", "scripted"]
