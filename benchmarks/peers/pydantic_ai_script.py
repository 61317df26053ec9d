"""The scripted model and the tool, as Pydantic AI takes them."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits

from benchmarks.temporal_worker import failing_at_once
from benchmarks.work import model_answer, read_prompt, tool_result

UNLIMITED = UsageLimits(request_limit=None)
"""The default allows 50 model calls per run; W2 has 51."""


async def look_up(work: str, turn: int, step: int, index: int) -> str:
    """Look something up."""
    return tool_result(work, step, index)


async def answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    """Say what the script says next."""
    asked, prompt = _last_prompt(messages)
    work, turn = read_prompt(prompt)
    given = sum(isinstance(message, ModelResponse) for message in messages[asked:])
    results = [part.content for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    with failing_at_once():
        said = model_answer(work, given, turn, results)
    calls = [ToolCallPart(call.name, call.arguments, tool_call_id=call.id) for call in said.calls]
    return ModelResponse(parts=[TextPart(said.text), *calls])


def scripted() -> FunctionModel:
    """The model."""
    return FunctionModel(answer)


def _last_prompt(messages: Sequence[ModelMessage]) -> tuple[int, str]:
    """Where the last prompt is, and its text."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if isinstance(message, ModelRequest):
            for part in message.parts:
                if isinstance(part, UserPromptPart):
                    return place, str(part.content)
    raise ValueError("a conversation without a prompt")
