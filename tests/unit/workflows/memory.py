"""Effects over plain memory, for the strategies' own tests: a script answers, tools do nothing, all is written down."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from perdure.uap.options import RunOptions
from perdure.uap.scaffold import as_scaffold
from perdure.uap.spec import AgentSpec
from perdure.uap.state import ExecutionState
from perdure.uap.strategy import PLAIN, Ask, Strategy, StrategyContext
from perdure.upp.json_value import JSONValue
from perdure.upp.messages import AssistantMessage, ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.upp.turn import Turn

Said = str | Sequence[str]
"""An answer: its text, or the names of the tools that it calls. Tools whose name begins with "bad" fail."""


def begun() -> ExecutionState:
    """The state of a run before its first step."""
    return ExecutionState(messages=[UserMessage("go")])


class Memory:
    """Effects over a script.

    Args:
        script: the answer to each model call, by how many there were before it.
        state: where the run stands.
        stop: the step after which the stop condition says so; 0 for never.
    """

    def __init__(self, script: Callable[[int], Said], state: ExecutionState | None = None, *, stop: int = 0) -> None:
        self.state = state or begun()
        self.done: list[str] = []
        self.asks: list[Ask] = []
        self.data: JSONValue = None
        self._script = script
        self._stop = stop

    async def start_step(self) -> int:
        self.state.step += 1
        self.done.append(f"step {self.state.step}")
        return self.state.step

    async def generate(self, ask: Ask = PLAIN) -> AssistantMessage:
        answer = self._answer(self._script(self.state.cycles))
        if ask.structure is not None:
            self.data = _parsed(answer.text)
        self.asks.append(ask)
        self.state.messages.append(as_scaffold(answer, ask.scaffold) if ask.scaffold else answer)
        self.state.cycles += 1
        self.done.append(f"generate {ask.scaffold}".strip())
        return answer

    def _answer(self, said: Said) -> AssistantMessage:
        if isinstance(said, str):
            return AssistantMessage(said)
        calls = [ToolCall(f"{self.state.cycles}_{place}", name, {}) for place, name in enumerate(said)]
        return AssistantMessage("", calls)

    async def call_tools(self, message: AssistantMessage, *, hooks: bool = False) -> ToolResultMessage:
        calls = message.tool_calls or []
        results = [ToolResult(call.tool_call_id, "said", call.tool_name.startswith("bad")) for call in calls]
        answer = ToolResultMessage(results)
        self.state.messages.append(answer)
        self.done.append("tools with hooks" if hooks else "tools")
        return answer

    async def end_step(self, *, last: bool) -> bool:
        self.state.done = last
        self.done.append("last" if last else "end")
        return last or self.state.step == self._stop

    def turn(self) -> Turn:
        return Turn(self.state.messages, self.state.tool_executions, self.state.usage, self.state.cycles)


def _parsed(text: str) -> JSONValue:
    try:
        return json.loads(text)
    except ValueError:
        return None


def script_of(*said: Said) -> Callable[[int], Said]:
    """These answers, in order."""
    return lambda number: said[number]


async def run(strategy: Strategy, effects: Memory) -> Turn:
    """Run a strategy over effects."""
    context = StrategyContext(
        agent=AgentSpec("a", "i"),
        input=effects.state.messages[0],
        options=RunOptions(),
        state=effects.state,
        effects=effects,
    )
    return await strategy.execute(context)
