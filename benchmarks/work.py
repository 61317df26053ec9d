"""The scripted work that every contestant does: what is said, which calls are made, and what the right answer is.

Standard library only, for the peers run it in an environment of their own. All contestants say the same texts and call
the same tool, and nothing here waits: what is measured is the runtime.
"""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

TOOL = "look_up"
"""The tool's name. It is an async function `look_up(work: str, turn: int, step: int, index: int) -> str` that returns
`tool_result(work, step, index)` at once."""

TOOL_DESCRIPTION = "Look something up."
TOOL_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "work": {"type": "string"},
        "turn": {"type": "integer"},
        "step": {"type": "integer"},
        "index": {"type": "integer"},
    },
    "required": ["work", "turn", "step", "index"],
    "additionalProperties": False,
}
_TEXT_BYTES = 200
_LETTERS = string.ascii_letters + string.digits


class WrongRun(Exception):
    """A run did not do the work: it failed, or lost a tool's result, or its answer is not the script's."""


@dataclass(frozen=True)
class Work:
    """One of the works. A step is one model call and its tool calls; a turn of n steps has n + 1 model calls.

    Attributes:
        steps: per turn.
        calls: parallel tool calls per step.
        result_bytes: length of a tool's result.
        turns: of one session; the other works have one turn.
    """

    steps: int
    calls: int = 1
    result_bytes: int = 100
    turns: int = 1


WORK: dict[str, Work] = {
    "W1": Work(steps=10),
    "W2": Work(steps=50),
    "W3": Work(steps=10, result_bytes=20_000),
    "W4": Work(steps=10, calls=4),
    "W5": Work(steps=1, turns=200),
}


@dataclass(frozen=True)
class Call:
    """A tool call of the scripted model; its id is unique in a session."""

    id: str
    arguments: dict[str, Any]
    name: str = TOOL


@dataclass(frozen=True)
class ModelAnswer:
    """What the scripted model says; without calls it is the turn's last answer."""

    text: str
    calls: tuple[Call, ...] = ()


def steps(work: str) -> int:
    """Steps of one turn."""
    return WORK[work].steps


def calls_per_step(work: str) -> int:
    """Parallel tool calls of one step."""
    return WORK[work].calls


@lru_cache(maxsize=1024)
def noise(seed: str, size: int) -> str:
    """`size` letters and digits that hardly compress, always the same for a seed."""
    return "".join(random.Random(seed).choices(_LETTERS, k=size))


def prompt(work: str, turn: int = 0) -> str:
    """What the user says in a turn, counted from 0."""
    return f"{work} {turn} {noise('prompt', 60)}"


def read_prompt(text: str) -> tuple[str, int]:
    """The work and the turn that a prompt asks for."""
    work, turn, _ = text.split(" ", 2)
    return work, int(turn)


def tool_result(work: str, step: int, index: int) -> str:
    """What the tool returns for one call: `result_bytes` of text."""
    return noise(f"{work} {step} {index}", WORK[work].result_bytes)


def final_text(work: str) -> str:
    """The answer with which every turn of a work must end."""
    return f"done with {work} {noise('final', _TEXT_BYTES)}"


def model_answer(work: str, given: int, turn: int = 0, results: Sequence[str] | None = None) -> ModelAnswer:
    """What the model says after it has given `given` answers since the last user message.

    Args:
        work: its name.
        given: 0 for the first answer of a turn.
        turn: of the session, from 0; it makes the calls' ids unique.
        results: of the calls of the step before, in any order, if the contestant's model sees them: they are checked.

    Raises:
        WrongRun: they are not what the tool returned.
    """
    planned = WORK[work]
    if results is not None and sorted(results) != _results_before(work, given):
        raise WrongRun(f"{work}: before answer {given} the model was shown {len(results)} results, not the tool's")
    if given >= planned.steps:
        return ModelAnswer(final_text(work))
    return ModelAnswer(
        noise(f"text {given}", _TEXT_BYTES), tuple(_call(work, turn, given, i) for i in range(planned.calls))
    )


@lru_cache(maxsize=1024)
def _results_before(work: str, given: int) -> list[str]:
    return sorted(tool_result(work, given - 1, index) for index in range(calls_per_step(work))) if given else []


def _call(work: str, turn: int, step: int, index: int) -> Call:
    return Call(f"call_{turn}_{step}_{index}", {"work": work, "turn": turn, "step": step, "index": index})


def check_answer(work: str, text: object) -> None:
    """Raises: WrongRun: the run's answer is not the script's."""
    if text != final_text(work):
        raise WrongRun(f"{work}: the run ended with {str(text)[:80]!r}, not with the script's answer")
