"""`ask` and `query`: an agent in a thread of the caller's, and in one of its own. Source: UAP-1.0 section 9."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.uap.agent import Agent
from perdure.uap.kept_queries import QueryKeeper, keeper_of
from perdure.uap.open_calls import sendable_history
from perdure.upp.messages import Message, UserMessage
from perdure.upp.thread import Thread
from perdure.upp.turn import Turn

if TYPE_CHECKING:
    from perdure.uap.session import Session


async def ask(agent: Agent, input: str | Message, thread: Thread | None = None) -> Turn:
    """Run an agent after a thread's messages and append the turn to the thread.

    Args:
        agent: who is asked.
        input: what is asked.
        thread: changed only when the run has succeeded; without one the turn is all that is left.

    Raises:
        Exception: what `Agent.run` raises.
    """
    conversation = Thread() if thread is None else thread
    message = UserMessage(input) if isinstance(input, str) else input
    turn = await agent.run(sendable_history(conversation.messages, message), message)
    conversation.append(turn)
    return turn


class QueryResult:
    """What a query came to. Source: UAP-1.0 section 9.2, QueryResult.

    Attributes:
        turn: the last answer's.
        thread: the query's own; all results of one query share it.
    """

    def __init__(self, agent: Agent, turn: Turn, thread: Thread, keeper: QueryKeeper | None = None) -> None:
        self._agent = agent
        self._keeper = keeper
        self.turn = turn
        self.thread = thread

    @property
    def thread_id(self) -> str:
        """The id of the query's thread."""
        return self.thread.id

    async def continue_(self, input: str | Message) -> QueryResult:
        """Go on in the query's thread, after all that was said there, also by way of other results.

        The specification's name for it, `continue`, is a word of Python's: `getattr(result, "continue")`.

        Raises:
            Exception: what `Agent.run` raises; the thread is as it was.
        """
        return await _query_in(self.thread, self._agent, input, self._keeper)


setattr(QueryResult, "continue", QueryResult.continue_)


async def query(agent: Agent, input: str | Message, *, session: Session | None = None) -> QueryResult:
    """Run an agent in a thread of its own, which can be gone on in later.

    Args:
        agent: who is asked.
        input: what is asked.
        session: in whose metadata the thread is kept, under `queries`; by default that of the run in progress, if any.

    Raises:
        Exception: what `Agent.run` raises.
    """
    return await _query_in(Thread(), agent, input, keeper_of(session))


async def _query_in(thread: Thread, agent: Agent, input: str | Message, keeper: QueryKeeper | None) -> QueryResult:
    if keeper is not None:
        await keeper.check()
    turn = await ask(agent, input, thread)
    if keeper is not None:
        await keeper.keep(thread)
    return QueryResult(agent, turn, thread, keeper)
