"""`staged`: walk a UAIP workflow, stage by stage, until the model calls no tool any more. Source: UAIP 0.1; UAP-1.0 section 5.

What agents are given is `perdure.uap.staged`. Where the run stands in the workflow is in its thread, not here: the hosts
find it there, as `perdure.uap.stage_walk` has it.
"""

from __future__ import annotations

from perdure.uap.strategy import Ask, StrategyContext
from perdure.upp.turn import Turn


class Staged:
    """A loop whose tools are those of the stage where it is. One step is one model call and its tool batch."""

    def __init__(self, *, workflow: str, definition: str, max_steps: int) -> None:
        """Walk a definition of the workflow, known by its sha256, in at most `max_steps` steps."""
        self.workflow = workflow
        self.definition = definition
        self.max_steps = max_steps

    @property
    def name(self) -> str:
        """See `Strategy.name`."""
        return "staged"

    async def execute(self, context: StrategyContext) -> Turn:
        """Run until an answer without tool calls, to the limit, or until the stop condition says so.

        The limit is no error: what was done in the stages stands in the thread then, and the next run goes on there.
        """
        effects = context.effects
        ended = context.state.done
        while not ended:
            step = await effects.start_step()
            answer = await effects.generate(Ask(stages=self.definition))
            if answer.has_tool_calls:
                await effects.call_tools(answer)
            ended = await effects.end_step(last=not answer.has_tool_calls or step >= self.max_steps)
        return effects.turn()
