"""Agents that talk, served by a worker of the test's own process, and what is found of their sessions."""

from __future__ import annotations

from typing import Any

from sqlalchemy import text

from perdure import agent
from perdure.runtime.addresses import find_keyring
from perdure.store.database import Database
from perdure.uap.agent import Agent
from perdure.uap.session import Session
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.script import ScriptedAnswer
from perdure.upp.providers.scripted import call, scripted
from tests.conformance.uap_session_stage import Talker, said, texts
from tests.integration.stack import Stack

TALKER = Talker()
TALKS = TALKER.agent(name="talks")
LOOKS_OFTEN = Talker(rounds=4).agent(name="looks_often")
FALTERS = Talker(failures=1).agent(name="falters")
BREAKS = Talker().agent(name="breaks")
UNSTEADY = Talker().agent(name="unsteady")


def _calling(name: str, below: Agent) -> Agent:
    """An agent that has its sub-agent look, and says so."""

    def answer(request: LLMRequest) -> ScriptedAnswer:
        return f"{name} is done" if len(request.messages) > 1 else call(str(below.name), task="look")

    return agent(name=name, model=scripted(answer), tools=[below])


LEADER = _calling("leader", _calling("middle", Talker().agent(name="searcher")))
AGENTS = [TALKS, LOOKS_OFTEN, FALTERS, BREAKS, LEADER]


async def rows(stack: Stack, sql: str, **values: Any) -> list[Any]:
    database = Database(stack.addresses.database_url, keyring=find_keyring())
    async with database.transaction() as connection:
        found = list(await connection.execute(text(sql), values))
    await database.close()
    return found


def shape(chat: Session) -> list[Any]:
    """What is said in each node, where it forks, and what each checkpoint is of; ids by their place."""
    places = {name: place for place, name in enumerate(chat.thread_tree.nodes)}
    nodes: list[Any] = [
        [node.name, None if node.parent_id is None else places[node.parent_id], node.fork_index, texts(node.thread.messages)]
        for node in chat.thread_tree.nodes.values()
    ]  # fmt: skip
    taken: list[Any] = [
        [item.step, places[item.thread_id], texts(item.state.messages), item.metadata["threadLength"], item.state.done]
        for item in chat.checkpoints
    ]
    current = None if chat.current_checkpoint is None else chat.checkpoints.index(chat.current_checkpoint)
    return [nodes, places[chat.thread_tree.current.id], taken, current, said(chat)]


async def runs(chat: Session) -> None:
    """Two turns, the second with a tool call."""
    await chat.run("one")
    await chat.run("look")
