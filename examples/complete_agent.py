"""A complete agent: sub-agent, react, hooks, logging, and a session that is saved, restored and continued.

UAP-1.0, appendix A.1. A script stands in for the models, so that it runs without a key: `python examples/complete_agent.py`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from workspace import Workspace, workspace

from perdure import Session, agent, session
from perdure.execution import react
from perdure.middleware import logging
from perdure.types import Agent, AgentStrategy, ExecutionState, StepResult
from perdure.upp import AssistantMessage, LLMRequest, ToolCall, Turn
from perdure.upp.providers.scripted import call, scripted

FIND = "Find all TODO comments and create issues for them"
PRIORITIZE = "Now prioritize those issues"


class FileStorage:
    """Keeps each session in a file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def save(self, key: str, data: str) -> None:
        self._path(key).write_text(data)

    async def load(self, key: str) -> str | None:
        path = self._path(key)
        return path.read_text() if path.exists() else None

    async def delete(self, key: str) -> None:
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key.replace(':', '-')}.json"


def on_step_start(step: int, state: ExecutionState) -> None:
    print(f"--- Step {step} ---")


def on_reason(step: int, reasoning: str) -> None:
    print(f"Reasoning: {reasoning[:200]}")


def on_act(step: int, actions: Sequence[ToolCall]) -> None:
    for action in actions:
        print(f"Action: {action.tool_name}")


def on_step_end(step: int, result: StepResult) -> None:
    print(f"Step {step} used {result.turn.usage.total_tokens} tokens")


def on_complete(turn: Turn) -> None:
    print(f"Completed in {turn.cycles} cycles")


def make_coder(tools: Workspace) -> Agent:
    """The main agent, with a sub-agent among its tools."""
    explorer = agent(
        name="explorer",
        model=scripted(explorer_says),  # anthropic("claude-haiku-4-20250514")
        system="You explore codebases and report findings concisely.",
        tools=[tools.Glob, tools.Grep, tools.Read],
    )
    return agent(
        name="coder",
        model=scripted(coder_says),  # anthropic("claude-sonnet-4-20250514")
        params={"max_tokens": 4096},
        execution=react(max_steps=20),
        tools=[tools.Bash, tools.Read, tools.Write, explorer],  # the sub-agent as a tool
        system=(
            "You are an expert software engineer.\n"
            "Use the explorer tool to understand code structure before making changes.\n"
            "Think step by step and explain your reasoning."
        ),
        middleware=[logging(level="info", include_timing=True)],
        strategy=AgentStrategy(
            stop_condition=lambda state: state.metadata.get("taskComplete") is True,
            on_step_start=on_step_start,
            on_reason=on_reason,
            on_act=on_act,
            on_step_end=on_step_end,
            on_complete=on_complete,
        ),
    )


async def main() -> tuple[Turn, Turn]:
    with workspace() as tools, TemporaryDirectory() as place:
        coder, storage = make_coder(tools), FileStorage(Path(place))

        # A session, for persistence.
        sess = session(coder, checkpoints=True, checkpoint_interval="step")
        turn = await sess.run(FIND)
        print(turn.response.text)

        # Save it for later ...
        await storage.save(f"session:{sess.id}", json.dumps(sess.to_json()))

        # ... and later, in another process as well: restore it and continue.
        saved = await storage.load(f"session:{sess.id}")
        restored = Session.from_json(saved, coder)
        print(f"Restored {len(restored.checkpoints)} checkpoints")
        turn2 = await restored.run(PRIORITIZE)
        print(turn2.response.text)
        print((tools.folder / "ISSUES.md").read_text().strip())
        return turn, turn2


# What the models say. The last result is what a tool really returned.


def explorer_says(request: LLMRequest) -> str | ToolCall:
    if len(request.messages) == 1:
        return call("Grep", text="TODO")
    return "\n".join(f"- {line}" for line in json.loads(request.messages[-1].text))


def coder_says(request: LLMRequest) -> str | ToolCall:
    """What comes next in the task at hand: reasoning and action take turns."""
    texts = [message.text for message in request.messages]
    task = PRIORITIZE if PRIORITIZE in texts else FIND
    said = sum(isinstance(message, AssistantMessage) for message in request.messages[texts.index(task) :])
    results = [message.text for message in request.messages if message.type == "tool_result"]
    last = results[-1] if results else ""
    return {
        FIND: [
            "I do not know this code yet, so the explorer shall look for the comments first.",
            call("explorer", task="Find all TODO comments"),
            "Each comment becomes an issue.",
            call("Write", path="ISSUES.md", content=last),
            "I should count what was written.",
            call("Bash", command="wc -l < ISSUES.md; grep -c TODO ISSUES.md"),
            "All comments have an issue, so nothing is left to do.",
            "I wrote the issues to ISSUES.md.",
        ],
        PRIORITIZE: [
            "I need to see the issues as they are.",
            call("Read", path="ISSUES.md"),
            "A server that does not answer comes first.",
            call("Write", path="ISSUES.md", content="\n".join(sorted(last.splitlines(), reverse=True))),
            "The order is right.",
            "The issues are in order of importance.",
        ],
    }[task][said]


if __name__ == "__main__":
    asyncio.run(main())
