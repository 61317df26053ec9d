"""Before: a model with tools by UPP alone, where the program keeps the conversation and decides when to stop.

UAP-1.0, appendix B.1; `after_uap_agent.py` is the same as an agent. A script stands in for the model, so that it runs
without a key: `python examples/before_raw_upp.py`.
"""

from __future__ import annotations

import asyncio

from workspace import workspace

from perdure.upp import Thread, ToolUseStrategy, llm
from perdure.upp.providers.scripted import call, scripted

USER_INPUT = "List the files and say DONE."
ANSWERS = [call("Bash", command="ls *.py"), "There are two modules, routes.py and server.py. DONE"]


async def main() -> Thread:
    with workspace() as tools:
        model = llm(
            model=scripted(ANSWERS),  # anthropic("claude-sonnet-4-20250514")
            system="You are a coding assistant.",
            tools=[tools.Read, tools.Write, tools.Bash],
            tool_strategy=ToolUseStrategy(max_iterations=10),
        )
        thread = Thread()

        # The program's own loop for tasks of several steps.
        while True:
            turn = await model.generate(thread, USER_INPUT)
            thread.append(turn)
            if not turn.response.has_tool_calls:
                break
            if len(thread) > 100:
                break
            # The program's own stop condition.
            if "DONE" in turn.response.text:
                break

        for message in thread:
            print(f"{message.type}: {message.text}")
        return thread


if __name__ == "__main__":
    asyncio.run(main())
