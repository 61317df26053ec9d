"""LangGraph with its Postgres saver: `python -m benchmarks.peers.langgraph_postgres`.

Two bare nodes, without LangChain's agent: the least that LangGraph does. The calls of a step are made by one node and
are one checkpoint. The work is done in this process; {"best": true} shares it between two processes. {"durability":
"sync"} is durable before the next step begins; by default ("async") LangGraph writes meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from importlib.metadata import version
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import ToolCall
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from benchmarks.line import Done, Given, Ready, closed_loop, given, one_by_one, serve
from benchmarks.peers.shared_driver import SharedDriver
from benchmarks.work import check_answer, model_answer, prompt, read_prompt, tool_result

_CONNECTIONS = 20
_MOST_STEPS = 1000
_PACKAGES = ("langgraph", "langgraph-checkpoint-postgres", "langchain-core", "psycopg")


async def call_model(state: MessagesState) -> dict[str, Any]:
    """Say what the script says next."""
    messages = state["messages"]
    asked = max(place for place, message in enumerate(messages) if isinstance(message, HumanMessage))
    work, turn = read_prompt(str(messages[asked].content))
    since = messages[asked + 1 :]
    answers = [place for place, message in enumerate(since) if isinstance(message, AIMessage)]
    last = since[answers[-1] + 1 :] if answers else []
    said = model_answer(work, len(answers), turn, [str(message.content) for message in last])
    calls = [ToolCall(name=call.name, args=call.arguments, id=call.id, type="tool_call") for call in said.calls]
    return {"messages": [AIMessage(said.text, tool_calls=calls)]}


async def call_tools(state: MessagesState) -> dict[str, Any]:
    """Make the calls of the last answer, all at once."""
    calls = state["messages"][-1].tool_calls
    results = await asyncio.gather(*(look_up(**call["args"]) for call in calls))
    return {"messages": [ToolMessage(text, tool_call_id=call["id"]) for call, text in zip(calls, results, strict=True)]}


async def look_up(work: str, turn: int, step: int, index: int) -> str:
    """The tool of all works."""
    return tool_result(work, step, index)


def graph() -> StateGraph[MessagesState]:
    """The model and its tools, in turns."""
    built = StateGraph(MessagesState)
    built.add_node("model", call_model)
    built.add_node("tools", call_tools)
    built.add_edge(START, "model")
    built.add_conditional_edges(
        "model", lambda state: "tools" if state["messages"][-1].tool_calls else END, ["tools", END]
    )
    built.add_edge("tools", "model")
    return built


class LangGraphDriver:
    """See `line.Driver`."""

    def __init__(self, start: Given) -> None:
        """Nothing is started yet."""
        self._given = start
        self._stack = AsyncExitStack()
        durability = start.options.get("durability")
        self._how = {"durability": durability} if durability else {}

    async def start(self) -> Ready:
        pool = await self._stack.enter_async_context(
            AsyncConnectionPool(
                self._given.database_url,
                min_size=_CONNECTIONS,
                max_size=_CONNECTIONS,
                kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
            )
        )
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        self._app = graph().compile(checkpointer=saver)
        return Ready({"worker": [os.getpid()]}, {package: version(package) for package in _PACKAGES})

    async def runs(self, work: str, runs: int, at_once: int) -> Done:
        async def one(_number: int) -> str:
            return await self._turn(work, 0, str(uuid.uuid4()))

        return await closed_loop(one, runs, at_once)

    async def turns(self, work: str, turns: int) -> Done:
        thread = str(uuid.uuid4())

        async def one(turn: int) -> str:
            return await self._turn(work, turn, thread)

        return await one_by_one(one, turns)

    async def stored(self, ids: Sequence[str]) -> Mapping[str, float]:
        return {"history_bytes": 0, "events": 0}

    async def stop(self) -> None:
        await self._stack.aclose()

    async def _turn(self, work: str, turn: int, thread: str) -> str:
        config = {"configurable": {"thread_id": thread}, "recursion_limit": _MOST_STEPS}
        asked = {"messages": [HumanMessage(prompt(work, turn))]}
        ended = await self._app.ainvoke(asked, config, **self._how)
        check_answer(work, ended["messages"][-1].content)
        return thread


if __name__ == "__main__":
    start = given()
    peer = "benchmarks.peers.langgraph_postgres"
    serve(SharedDriver(peer, start) if start.options.get("best") else LangGraphDriver(start))
