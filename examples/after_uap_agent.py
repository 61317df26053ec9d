"""After: the same as an agent in a session, with checkpoints, logging and a stop condition of its own.

UAP-1.0, appendix B.2; `before_raw_upp.py` is the same by UPP alone. A script stands in for the model, so that it runs
without a key: `python examples/after_uap_agent.py`.
"""

from __future__ import annotations

import asyncio

from workspace import workspace

from perdure import agent, session
from perdure.execution import react
from perdure.middleware import logging
from perdure.types import AgentStrategy, ExecutionState, Session
from perdure.upp.providers.scripted import Answer, call, scripted

USER_INPUT = "List the files and say DONE."
LIST = call("Bash", command="ls *.py")
ANSWERS = [
    "I have to look which files there are.",
    LIST,
    "I know them now; one more look does no harm.",
    Answer("There are two modules, routes.py and server.py. DONE", tool_calls=[LIST]),
]


def stop_condition(state: ExecutionState) -> bool:
    """Stops at a hundred messages, or as soon as the model has said that it is done."""
    if len(state.messages) > 100:
        return True
    return any(message.type == "assistant" and "DONE" in message.text for message in state.messages)


async def main() -> Session:
    with workspace() as tools:
        coder = agent(
            name="coder",
            model=scripted(ANSWERS),  # anthropic("claude-sonnet-4-20250514")
            execution=react(max_steps=50),
            tools=[tools.Read, tools.Write, tools.Bash],
            system="You are a coding assistant.",
            middleware=[logging()],
            strategy=AgentStrategy(stop_condition=stop_condition),
        )
        sess = session(coder)
        turn = await sess.run(USER_INPUT)

        # Checkpoints, logging and the stop condition come by themselves; sess.restore() goes back to a checkpoint.
        for message in turn.messages:
            print(f"{message.type}: {message.text}")
        print(f"{len(sess.checkpoints)} checkpoints")
        return sess


if __name__ == "__main__":
    asyncio.run(main())
