"""A query: a conversation of its own beside the main one, which can be continued from its result.

UAP-1.0, appendix A.2. A script stands in for the model, so that it runs without a key: `python examples/query_pattern.py`.
"""

from __future__ import annotations

import asyncio

from perdure import agent, query
from perdure.types import QueryResult
from perdure.upp.providers.scripted import scripted

ANSWERS = [
    "Catch what you can handle, and let the rest propagate.",
    "An await raises what its task raised, so the same holds there.",
    "try: await work() / except KnownError: recover() / finally: close()",
]

researcher = agent(
    name="researcher",
    model=scripted(ANSWERS),  # anthropic("claude-sonnet-4-20250514")
    system="You are a technical researcher. Provide detailed, accurate information.",
)


async def main() -> QueryResult:
    # Start a research query.
    result = await query(researcher, "What are the best practices for error handling in Python?")
    print(result.turn.response.text)

    # Continue the query's thread: `continue` is a word of Python's, hence the underscore.
    followup1 = await result.continue_("How does this apply to async and await?")
    print(followup1.turn.response.text)

    # Continue further.
    followup2 = await followup1.continue_("Show me an example with try, except and finally")
    print(followup2.turn.response.text)

    # All of it is in one thread of the query's own; no other conversation has changed.
    print(f"{len(followup2.thread)} messages in one thread: {result.thread_id == followup2.thread_id}")
    return followup2


if __name__ == "__main__":
    asyncio.run(main())
