"""The scripted model and the tool, as the OpenAI Agents SDK takes them."""

from __future__ import annotations

import json
from typing import Any

from agents import Model, ModelProvider, ModelResponse, Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from temporalio import activity

from benchmarks.temporal_worker import failing_at_once
from benchmarks.work import Call, model_answer, read_prompt, tool_result


@activity.defn
async def look_up(work: str, turn: int, step: int, index: int) -> str:
    """Look something up."""
    return tool_result(work, step, index)


class ScriptedModel(Model):
    """Says what the script says next."""

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        items = [{"role": "user", "content": input}] if isinstance(input, str) else input
        asked = max(place for place, item in enumerate(items) if item.get("role") == "user")
        work, turn = read_prompt(items[asked]["content"])
        since = items[asked + 1 :]
        given = sum(item.get("role") == "assistant" for item in since)
        last = max((place for place, item in enumerate(since) if item.get("role") == "assistant"), default=0)
        results = [item["output"] for item in since[last:] if item.get("type") == "function_call_output"]
        with failing_at_once():
            said = model_answer(work, given, turn, results)
        text = ResponseOutputText(text=said.text, type="output_text", annotations=[])
        message = ResponseOutputMessage(
            id=f"message_{turn}_{given}", role="assistant", status="completed", type="message", content=[text]
        )
        usage = Usage(requests=1, input_tokens=100, output_tokens=50, total_tokens=150)
        return ModelResponse(output=[message, *map(_item, said.calls)], usage=usage, response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("the benchmark does not stream")


class ScriptedModels(ModelProvider):
    """Gives the scripted model, whatever its name."""

    def get_model(self, model_name: str | None) -> Model:
        return ScriptedModel()


def _item(call: Call) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        name=call.name,
        arguments=json.dumps(call.arguments),
        call_id=call.id,
        type="function_call",
        id=f"item_{call.id}",
    )
