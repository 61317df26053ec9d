"""The agent that Perdure's workers serve in the benchmark: the scripted model, its tool, and the default strategy.

Options, from `BENCH_OPTIONS`: {"short_tools": true} declares the tool short, {"short_model": true} the model,
{"effect": "none"} the tool's effect.
"""

from __future__ import annotations

from benchmarks import line
from benchmarks.floor_events import USAGE
from benchmarks.work import TOOL, TOOL_DESCRIPTION, WORK, model_answer, read_prompt, tool_result
from perdure import App, agent
from perdure.execution import loop
from perdure.upp import LLMRequest, ToolCall, tool
from perdure.upp.messages import ToolResultMessage
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from perdure.upp.usage import TokenUsage

AGENT = "bench"
_USAGE = TokenUsage(USAGE["inputTokens"], USAGE["outputTokens"], USAGE["totalTokens"])
"""As a vendor tells it: to count tokens is none of a runtime's work."""
_options = line.given().options


def _model(request: LLMRequest) -> Answer:
    messages = request.messages
    asked = next(place for place in reversed(range(len(messages))) if messages[place].type == "user")
    name, turn = read_prompt(messages[asked].text)
    given = sum(message.type == "assistant" for message in messages[asked:])
    last = messages[-1]
    results = [result.text for result in last.results] if isinstance(last, ToolResultMessage) else []
    said = model_answer(name, given, turn, results)
    calls = [ToolCall(call.id, call.name, call.arguments) for call in said.calls]
    return Answer(text=said.text, tool_calls=calls, usage=_USAGE)


@tool(
    name=TOOL,
    description=TOOL_DESCRIPTION,
    effect=_options.get("effect", "at_most_once"),
    short=bool(_options.get("short_tools")),
)
async def look_up(work: str, turn: int, step: int, index: int) -> str:
    """Look something up."""
    return tool_result(work, step, index)


_most_steps = max(one.steps for one in WORK.values())
_scripted = scripted(_model, short=bool(_options.get("short_model")))
app = App(agents=[agent(name=AGENT, model=_scripted, tools=[look_up], execution=loop(max_iterations=_most_steps))])
