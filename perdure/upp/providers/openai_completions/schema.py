"""The shapes of Chat Completions' answers and chunks: what is read of them, everything else is ignored.

Servers leave out or null almost every field, so almost every field is optional.
Source: OpenAI, Chat Completions; `reasoning_content` is DeepSeek's, `reasoning` Groq's and OpenRouter's,
`reasoning_details` and `images` are OpenRouter's, content in parts is Mistral's.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from perdure.upp.json_value import JSONObject, JSONValue


class _Wire(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class Function(_Wire):
    """What a call calls; `arguments` is JSON text, on some servers an object."""

    name: str | None = None
    arguments: str | dict[str, JSONValue] | None = None


class Call(_Wire):
    """A tool call, or a piece of one."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None


class ImageUrl(_Wire):
    """Where a generated image is, mostly a data URL."""

    url: str


class Image(_Wire):
    """A generated image."""

    image_url: ImageUrl


class Audio(_Wire):
    """Generated sound in base64, or a piece of it."""

    data: str | None = None
    transcript: str | None = None


class Part(_Wire):
    """A part of a content: text, reasoning (`thinking` is text, or parts of text), or a kind that is not read."""

    type: str | None = None
    text: str | None = None
    thinking: str | list[Part] | None = None


class Message(_Wire):
    """The model's message, or a piece of it."""

    content: str | list[Part] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[JSONObject] | None = None
    tool_calls: list[Call] | None = None
    images: list[Image] | None = None
    audio: Audio | None = None
    annotations: list[JSONValue] | None = None

    @property
    def text(self) -> str | None:
        """The content's text; parts of it are one text, as references cut sentences."""
        return _text(self.content) if isinstance(self.content, list) else self.content

    @property
    def thinking(self) -> str:
        """The reasoning among the content's parts."""
        parts = self.content if isinstance(self.content, list) else ()
        thoughts = [part.thinking for part in parts if part.type == "thinking"]
        return "".join(_text(thought) if isinstance(thought, list) else thought or "" for thought in thoughts)


class PromptDetails(_Wire):
    """What the prompt's tokens were."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class Usage(_Wire):
    """The tokens of a call; the cached ones are named in three ways (OpenAI, DeepSeek, Moonshot)."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    prompt_cache_hit_tokens: int | None = None
    cached_tokens: int | None = None


class Choice(_Wire):
    """One answer; `delta` in chunks, `message` in whole answers. Moonshot has a stream's usage here."""

    index: int | None = None
    message: Message | None = None
    delta: Message | None = None
    finish_reason: str | None = None
    usage: Usage | None = None


class GroqExtras(_Wire):
    """Groq's own fields."""

    usage: Usage | None = None


class Completion(_Wire):
    """A whole answer, or a chunk of a streamed one."""

    id: str | None = None
    model: str | None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None
    choices: list[Choice] | None = None
    usage: Usage | None = None
    x_groq: GroqExtras | None = None

    @property
    def any_usage(self) -> Usage | None:
        """The usage, wherever the server put it."""
        in_choice = next((choice.usage for choice in self.choices or () if choice.usage is not None), None)
        return self.usage or in_choice or (self.x_groq.usage if self.x_groq else None)


def _text(parts: Sequence[Part]) -> str:
    return "".join(part.text or "" for part in parts if part.type == "text")
