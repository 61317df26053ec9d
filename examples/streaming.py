"""A stream: the agent's own events and its model's text in one sequence, as they happen.

UAP-1.0, appendix A.3. A script stands in for the model, so that it runs without a key: `python examples/streaming.py`.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from workspace import workspace

from perdure import agent
from perdure.execution import react
from perdure.types import UAPEvent
from perdure.upp import Turn
from perdure.upp.providers.scripted import call, scripted

SERVER = "import http.server\n\nhttp.server.test()\n"
ANSWERS = [
    "The file server.py is where it belongs, so I read it first.",
    call("Read", path="server.py"),
    "The standard library has a server; I can use that.",
    call("Write", path="server.py", content=SERVER),
    "The server is written, so I can say so.",
    "server.py now serves the folder on port 8000.",
]


def show(event: UAPEvent) -> None:
    """One line per event of the agent's own."""
    data: dict[str, Any] = event.data
    match event.type:
        case "step_start":
            print(f"\n=== Step {event.step} ===\n")
        case "reasoning":
            print(f"\n[Thinking] {data['text']}")
        case "action":
            for made in data["toolCalls"]:
                print(f"[Action] {made['toolName']}({json.dumps(made['arguments'])})")
        case "observation":
            print(f"[Result] {len(data['results'])} results")
        case "step_end":
            print(f"\n[Tokens] {data['usage']['totalTokens']}")
        case _:
            pass


async def main() -> Turn:
    with workspace() as tools:
        coder = agent(
            name="coder",
            model=scripted(ANSWERS, chunk_size=8),  # anthropic("claude-sonnet-4-20250514")
            execution=react(max_steps=10),
            tools=[tools.Read, tools.Write],
        )
        stream = coder.stream("Implement a simple HTTP server")

        # Process events as they arrive: those of the agent, and those of its model.
        async for event in stream:
            if event.uap is not None:
                show(event.uap)
            elif event.upp is not None and event.upp.type == "text_delta":
                print(event.upp.delta.text or "", end="", flush=True)

        # The turn is there when the stream has ended.
        turn = await stream.turn
        print(f"\nFinal response: {turn.response.text}")
        print(f"Total tokens: {turn.usage.total_tokens}")
        return turn


if __name__ == "__main__":
    asyncio.run(main())
