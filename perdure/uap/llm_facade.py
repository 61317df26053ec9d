"""`context.llm`: the agent's model with its tools, as a strategy of the user's own uses it. Each call is the host's effect.

The tool loop is UPP's, see `perdure.upp.generation`. Source: UAP-1.0 section 5.1, UPP-1.2 LLMInstance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from perdure.errors import StrategyError
from perdure.uap.hook_line import HookLine
from perdure.uap.own_effects import OwnAsk, OwnEffects, Tell
from perdure.upp.content import StandsForBlock, UserContent
from perdure.upp.errors import ErrorCode, Modality, UPPError
from perdure.upp.event_flow import EventFlow
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import Message, UserMessage
from perdure.upp.stream import StreamEvent
from perdure.upp.stream_result import StreamResult
from perdure.upp.tool_call import ToolExecution
from perdure.upp.turn import Turn
from perdure.upp.usage import TokenUsage, aggregate_usage

MOST_ROUNDS = 10
"""Rounds of tools in one call, as UPP's own loop has it."""


class StrategyLLM:
    """The agent's model. It keeps no conversation; several calls may run at once.

    In a workflow, messages that came from the history, from this run or from the input are read whole from the store,
    though the strategy sees previews of their long parts. A message of its own is sent as it is, of at most 64 KB.
    """

    def __init__(self, effects: OwnEffects, line: HookLine) -> None:
        """Ask through `effects`, after all hooks of `line`."""
        self._effects = effects
        self._line = line
        self._closed = False

    @property
    def model(self) -> Any:
        """The agent's model reference; None in a workflow."""
        return self._effects.model.model

    @property
    def system(self) -> str | None:
        """The agent's system prompt; None in a workflow."""
        return self._effects.model.system

    @property
    def params(self) -> JSONObject:
        """The agent's model parameters; empty in a workflow."""
        return self._effects.model.params

    @property
    def capabilities(self) -> Any:
        """What the provider's models can do; None in a workflow."""
        return self._effects.model.capabilities

    async def generate(self, first: object, /, *rest: object) -> Turn:
        """What the model makes of the inputs, after all tool calls; a history is not changed.

        Args:
            first: an input, or the history: a Thread or a list of messages.
            rest: more inputs; each becomes a message of its own. A history that is not empty needs none.

        Raises:
            UPPError: INVALID_REQUEST if an argument cannot be sent, or at the limit of tool rounds; else the provider's.
            StrategyError: the run is over.
        """
        history, inputs = self._read(first, rest)
        return await self._converse(history, inputs, None)

    def stream(self, first: object, /, *rest: object) -> StreamResult:
        """The same as it comes; nothing is sent before it is read. The arguments are those of `generate`.

        In a workflow the events are in the session's log as they come, and what is yielded here only marks where each
        message begins and ends: yield it on, nothing is told twice.
        """
        history, inputs = self._read(first, rest)

        async def work(flow: EventFlow) -> Turn:
            async def tell(event: StreamEvent) -> None:
                await flow.send([event])

            return await self._converse(history, inputs, tell)

        return StreamResult(work, "perdure")

    def close(self) -> None:
        """The strategy has returned; what it left running asks no more."""
        self._closed = True

    async def _converse(self, history: Sequence[Message], inputs: Sequence[Message], tell: Tell | None) -> Turn:
        effects, sent = self._effects, [*history, *inputs]
        produced: list[Message] = []
        executions: list[ToolExecution] = []
        used: list[TokenUsage] = []
        for rounds in range(MOST_ROUNDS + 1):
            await self._line.settle()
            if self._closed:
                raise StrategyError("the strategy has returned; its model can be asked no more")
            ask = OwnAsk([*sent, *produced], 0 if produced else len(inputs), tell)
            answered = await effects.ask(ask)
            used.append(answered.usage)
            produced.append(answered.message)
            if not answered.message.has_tool_calls or not effects.tools:
                return Turn([*inputs, *produced], executions, aggregate_usage(used), len(used))
            if rounds < MOST_ROUNDS:
                results, done = await effects.call_answer_tools(answered.message, tell)
                executions.extend(done)
                produced.append(results)
        raise _refused(f"Tool execution exceeded maximum iterations ({MOST_ROUNDS})")

    def _read(self, first: object, rest: Sequence[object]) -> tuple[list[Message], list[Message]]:
        history = _history(first)
        inputs = [self._message(item) for item in (rest if history is not None else (first, *rest))]
        if not history and not inputs:
            raise _refused("the history is empty and there is no input; give at least one input after it")
        return history or [], inputs

    def _message(self, given: object) -> Message:
        if isinstance(given, Message):
            return given
        if not isinstance(given, str | UserContent | StandsForBlock):
            raise _refused(f"an input must be text, a message, a content block or media, not {type(given).__name__}")
        ident, at = self._effects.stamp()
        content = given if isinstance(given, str) else [cast(Any, given)]
        return UserMessage(content, id=ident, timestamp=at)


def _history(first: object) -> list[Message] | None:
    given = cast(object, getattr(first, "messages", first))  # a Thread has them
    if not isinstance(given, list | tuple):
        return None
    items = cast("Sequence[object]", given)
    wrong = [type(item).__name__ for item in items if not isinstance(item, Message)]
    if wrong:
        raise _refused(f"the first argument is a list, so it is the history and holds messages only, not {wrong[0]}")
    return [item for item in items if isinstance(item, Message)]


def _refused(problem: str) -> UPPError:
    return UPPError(problem, ErrorCode.INVALID_REQUEST, "perdure", Modality.LLM)
