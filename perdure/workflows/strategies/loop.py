"""`loop`: ask the model, run its tools, ask again, until it calls none. Source: UAP-1.0 section 5.2."""

from __future__ import annotations

from typing import Any

from perdure.uap.strategy import Ask, StrategyContext
from perdure.uap.whole_number import check_whole_number
from perdure.upp.errors import ErrorCode, Modality, UPPError
from perdure.upp.turn import Turn


class Loop:
    """The simplest strategy. One step is one model call and its tool batch."""

    def __init__(self, *, max_iterations: int = 10) -> None:
        """Allow `max_iterations` rounds of tools, so one model call more; 0 returns tool calls unexecuted."""
        self.max_iterations = max_iterations

    @property
    def name(self) -> str:
        """See `Strategy.name`."""
        return "loop"

    @property
    def options(self) -> dict[str, Any]:
        """What builds the same strategy again."""
        return {"max_iterations": self.max_iterations}

    async def execute(self, context: StrategyContext) -> Turn:
        """Run until an answer without tool calls, or until the stop condition says so.

        Raises:
            UPPError: INVALID_REQUEST when the limit is met with tool calls open, as UPP's own tool loop has it.
        """
        effects, state = context.effects, context.state
        ended = state.done
        while not ended:
            if 0 < self.max_iterations < state.step:
                raise too_many_rounds(self.max_iterations)
            step = await effects.start_step()
            answer = await effects.generate(Ask(acts=step <= self.max_iterations))
            if answer.has_tool_calls and step <= self.max_iterations:
                await effects.call_tools(answer)
            ended = await effects.end_step(last=not answer.has_tool_calls or self.max_iterations == 0)
        return effects.turn()


def too_many_rounds(limit: int) -> UPPError:
    """The error of UPP's tool loop at its limit."""
    text = f"Tool execution exceeded maximum iterations ({limit})"
    return UPPError(text, ErrorCode.INVALID_REQUEST, "perdure", Modality.LLM)


def loop(*, max_iterations: int = 10) -> Loop:
    """The loop strategy. Source: UAP-1.0 section 5.2.

    Args:
        max_iterations: rounds of tools; at the limit with calls open the run fails. 0 runs none and returns them.

    Raises:
        InvalidInput: not a whole number of at least 0.
    """
    check_whole_number("max_iterations", max_iterations, 0)
    return Loop(max_iterations=max_iterations)
