"""Agents on vendors' models, all of them on this machine: the address comes from the environment."""

from __future__ import annotations

import os

from perdure import App, agent
from perdure.upp import ProviderConfig, tool
from perdure.upp.provider import ModelReference
from perdure.upp.providers import anthropic, google, ollama, openai, openrouter

KEY = "canary-4f1d9a7c2b60"
HEADER = "canary-header-8e35"

MODELS: dict[str, ModelReference] = {
    "claude": anthropic("claude-sonnet-4-6"),
    "gpt": openai("gpt-5"),
    "chat": openai("gpt-4.1", api="completions"),
    "gemini": google("gemini-3-pro"),
    "llama": ollama("llama3.2"),
    "router": openrouter("some/model"),
}


@tool(effect="none")
async def get_weather(location: str = "", city: str = "", unit: str = "") -> str:
    """Tell the weather of a place."""
    return f"sunny in {location or city}"


CONFIG = ProviderConfig(base_url=os.environ["PERDURE_TEST_VENDOR"], api_key=KEY, headers={"x-tenant": HEADER})
app = App(
    agents=[
        agent(name=name, model=model, config=CONFIG, tools=[get_weather], system="Be kind.")
        for name, model in MODELS.items()
    ]
)
