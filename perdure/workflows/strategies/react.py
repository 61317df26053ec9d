"""`react`: reason, act, observe, until there is nothing left to do. Source: UAP-1.0 section 5.3."""

from __future__ import annotations

from typing import Any, cast

from perdure.errors import InvalidInput
from perdure.uap.observations import FORMATS, MARKDOWN
from perdure.uap.scaffold import REASON
from perdure.uap.strategy import Ask, StrategyContext
from perdure.uap.whole_number import check_whole_number
from perdure.upp.turn import Turn

REASONING_PROMPT = "Think about what to do next. What is your reasoning?"
ACT_PROMPT = (
    "Based on your reasoning, take action using available tools. If nothing is left to do, give your final answer "
    "without calling a tool."
)


class React:
    """Reasoning before every action. One step is two model calls, then the tools of the second."""

    def __init__(
        self,
        *,
        max_steps: int = 10,
        reasoning_prompt: str = REASONING_PROMPT,
        observation_format: str = MARKDOWN,
    ) -> None:
        """Take at most `max_steps` steps; see `react`."""
        self.max_steps = max_steps
        self.reasoning_prompt = reasoning_prompt
        self.observation_format = observation_format

    @property
    def name(self) -> str:
        """See `Strategy.name`."""
        return "react"

    @property
    def options(self) -> dict[str, Any]:
        """What builds the same strategy again."""
        return {
            "max_steps": self.max_steps,
            "reasoning_prompt": self.reasoning_prompt,
            "observation_format": self.observation_format,
        }

    async def execute(self, context: StrategyContext) -> Turn:
        """Run until a step calls no tool, to the limit, or until the stop condition says so. The limit is no error."""
        effects = context.effects
        ended = context.state.done
        while not ended:
            step = await effects.start_step()
            observe = self.observation_format if step > 1 else ""  # a step that another one follows had tools
            await effects.generate(Ask(scaffold=REASON, prompt=self.reasoning_prompt, observe=observe, tools=False))
            answer = await effects.generate(Ask(prompt=ACT_PROMPT, acts=True))
            if answer.has_tool_calls:
                await effects.call_tools(answer, hooks=True)
            ended = await effects.end_step(last=not answer.has_tool_calls or step >= self.max_steps)
        return effects.turn()


def react(
    *, max_steps: int = 10, reasoning_prompt: str = REASONING_PROMPT, observation_format: str = MARKDOWN
) -> React:
    """The reason-act-observe strategy. Source: UAP-1.0 section 5.3.

    Args:
        max_steps: reason-act-observe cycles; at the limit the turn so far is returned.
        reasoning_prompt: said to the model, exactly so, when it shall reason; not blank.
        observation_format: "markdown", "json" or "text": how tool results are told once more before it reasons on.

    Raises:
        InvalidInput: an option that cannot be used.
    """
    check_whole_number("max_steps", max_steps, 1)
    prompt = cast(object, reasoning_prompt)
    if not isinstance(prompt, str) or not prompt.strip():
        raise InvalidInput(f"reasoning_prompt is {prompt!r:.80}; it must be text that is not blank")
    if observation_format not in FORMATS:
        raise InvalidInput(f"observation_format is {observation_format!r:.80}; it must be one of {', '.join(FORMATS)}")
    return React(max_steps=max_steps, reasoning_prompt=reasoning_prompt, observation_format=observation_format)
