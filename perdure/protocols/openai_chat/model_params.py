"""A request's settings of its model, in the words of whichever vendor's model the agent has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from perdure.protocols.openai_chat.faults import ChatFault
from perdure.protocols.openai_chat.request import ChatRequest

_PLAIN = ("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty")


@dataclass(frozen=True, slots=True)
class ModelKind:
    """Which words a model takes.

    Attributes:
        provider: such as "anthropic"; empty if it is not known.
        api: of a provider that has several: "responses" or "completions"; else empty.
    """

    provider: str = ""
    api: str = ""

    def __str__(self) -> str:
        return f"{self.provider} {self.api}".rstrip()


@dataclass(frozen=True, slots=True)
class _Words:
    """What a vendor calls them; what is not listed it does not have.

    Attributes:
        names: by OpenAI's name.
        wrapped: those that stand as a member of an object: its name and the member's.
    """

    names: dict[str, str]
    wrapped: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])


_OPENAI = _Words(
    {
        **{name: name for name in _PLAIN},
        "max_tokens": "max_tokens",
        "max_completion_tokens": "max_completion_tokens",
        "stop": "stop",
        "reasoning_effort": "reasoning_effort",
        "parallel_tool_calls": "parallel_tool_calls",
    }
)
_RESPONSES = _Words(
    {
        "temperature": "temperature",
        "top_p": "top_p",
        "max_tokens": "max_output_tokens",
        "max_completion_tokens": "max_output_tokens",
        "parallel_tool_calls": "parallel_tool_calls",
    },
    {"reasoning_effort": ("reasoning", "effort")},
)
_ANTHROPIC = _Words(
    {
        "temperature": "temperature",
        "top_p": "top_p",
        "max_tokens": "max_tokens",
        "max_completion_tokens": "max_tokens",
        "stop": "stop_sequences",
    }
)
_GOOGLE = _Words(
    {
        "temperature": "temperature",
        "top_p": "topP",
        "max_tokens": "maxOutputTokens",
        "max_completion_tokens": "maxOutputTokens",
        "stop": "stopSequences",
        "seed": "seed",
        "presence_penalty": "presencePenalty",
        "frequency_penalty": "frequencyPenalty",
    }
)
_OLLAMA = _Words(
    {
        **{name: name for name in _PLAIN},
        "max_tokens": "num_predict",
        "max_completion_tokens": "num_predict",
        "stop": "stop",
        "reasoning_effort": "think",
    }
)
_BY_KIND = {
    "openai responses": _RESPONSES,
    "openai": _RESPONSES,
    "anthropic": _ANTHROPIC,
    "google": _GOOGLE,
    "ollama": _OLLAMA,
}
"""A model that is not listed, such as one of the user's own, is taken to have OpenAI's words."""


def model_params(request: ChatRequest, kind: ModelKind) -> dict[str, Any]:
    """What a request says of its model, in the model's words.

    Raises:
        ChatFault: 400, something that this model does not have.
    """
    words = _BY_KIND.get(str(kind), _OPENAI)
    params: dict[str, Any] = {}
    for name, value in _given(request).items():
        if name in words.names:
            params[words.names[name]] = value
        elif name in words.wrapped:
            outer, inner = words.wrapped[name]
            params[outer] = {inner: value}
        elif name == "parallel_tool_calls":
            params |= _parallel(value, kind)
        else:
            raise ChatFault(
                f"the agent's model ({kind}) has no {name!r}; leave it out", code="unsupported_parameter", param=name
            )
    return params


def _given(request: ChatRequest) -> dict[str, Any]:
    given: dict[str, Any] = {name: getattr(request, name) for name in _PLAIN}
    given["reasoning_effort"] = request.reasoning_effort
    given["stop"] = [request.stop] if isinstance(request.stop, str) else request.stop
    given["parallel_tool_calls"] = request.parallel_tool_calls if request.tools else None
    longest = "max_tokens" if request.max_completion_tokens is None else "max_completion_tokens"
    given[longest] = getattr(request, longest)
    return {name: value for name, value in given.items() if value is not None}


def _parallel(allowed: bool, kind: ModelKind) -> dict[str, Any]:
    """Models call tools in parallel where nobody forbids it, which only some vendors can be asked to."""
    if allowed:
        return {}
    if kind.provider == "anthropic":
        return {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
    raise ChatFault(
        f"the agent's model ({kind}) cannot be kept from parallel tool calls; leave 'parallel_tool_calls' out",
        code="unsupported_parameter",
        param="parallel_tool_calls",
    )
