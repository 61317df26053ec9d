"""`session(...)`: an agent with a conversation that goes on, checkpoints to go back to, and a document of it all.

Sessions here live in this process. A connection's host opens sessions of its own, of a class below this one, so that
both are used alike. Source: UAP-1.0 sections 6 and 13.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from perdure.errors import InvalidInput
from perdure.uap import host
from perdure.uap.active_session import SessionRun, is_part_of
from perdure.uap.agent import Agent
from perdure.uap.agent_stream import AgentStreamEvent, AgentStreamResult
from perdure.uap.hooks import state_copy
from perdure.uap.open_calls import sendable_history
from perdure.uap.options import RunOptions
from perdure.uap.persistence import PersistenceAdapter
from perdure.uap.session_checkpoints import Checkpoint
from perdure.uap.session_document import SessionDocument, read_session
from perdure.uap.session_keeping import SessionKeeping
from perdure.uap.session_limits import SessionLimits
from perdure.uap.session_options import Interval, SessionOptions
from perdure.uap.session_place import place_turn
from perdure.uap.session_stream import CheckpointEvents, is_partial, relay
from perdure.uap.session_watch import resuming_host, running_in
from perdure.uap.thread_tree import ThreadTree
from perdure.upp.event_flow import Flow
from perdure.upp.json_value import JSONValue
from perdure.upp.messages import Message, UserMessage
from perdure.upp.turn import Turn


class Session(SessionKeeping):
    """An agent with a conversation that goes on. Made by `session(...)`. Source: UAP-1.0 section 6.1, Session.

    Runs come one after another; a second one waits. A run that fails leaves the threads as they were, and its
    checkpoints in the list: from there `resume` goes on.
    """

    def __init__(
        self, agent: Agent, options: SessionOptions | None = None, *, document: SessionDocument | None = None
    ) -> None:
        """See `session`, and `from_json` of which a document is."""
        tree = ThreadTree() if document is None else document.tree
        super().__init__(agent, options or SessionOptions(), document, tree)
        self._running = asyncio.Lock()

    async def run(self, input: str | Message, /, *, options: RunOptions | None = None) -> Turn:
        """Run the agent on one input after the current node's history, and append the turn to that node's thread.

        Raises:
            InvalidInput: the session's own run calls it.
            Exception: what `Agent.run` raises; the threads are as they were, a checkpoint per ended step is kept.
        """
        message = UserMessage(input) if isinstance(input, str) else input
        async with self._alone():
            here, run = resuming_host(), self._begin()
            history = sendable_history(self.thread_tree.history(), message)
            with self._counted(run), running_in(run, here):
                turn = await here.run(self._followed(run), history, message, options or RunOptions())
            run.node.thread.append(turn)
            await self._finish(run, turn)
            return turn

    def stream(
        self, input: str | Message, /, *, options: RunOptions | None = None, sub_agents: bool = False
    ) -> AgentStreamResult:
        """Do what `run` does, with events as it goes; it begins when it is first read. Source: UAP-1.0 section 6.1.

        When its turn is there, the thread has it. A stream that is aborted leaves its partial turn in the thread if
        anything was answered. What `run` raises is raised by reading.

        Args:
            input: text, or a message.
            options: for this run.
            sub_agents: whether events of sub-agents are given too, each with its path.
        """
        message = UserMessage(input) if isinstance(input, str) else input

        async def work(flow: Flow[AgentStreamEvent]) -> Turn:
            return await self._stream(flow, message, options or RunOptions(), sub_agents=sub_agents)

        return AgentStreamResult(work, [message])

    async def _stream(
        self, flow: Flow[AgentStreamEvent], message: Message, options: RunOptions, *, sub_agents: bool
    ) -> Turn:
        async with self._alone():
            here, run = resuming_host(), self._begin()
            events = CheckpointEvents(self.agent.id)

            async def keep(checkpoint: Checkpoint) -> None:
                events.took(checkpoint)
                await self._keep(checkpoint)

            history = sendable_history(self.thread_tree.history(), message)
            with self._counted(run), running_in(run, here):
                running = here.stream(self._agent_of(run, keep), history, message, options, sub_agents=sub_agents)
                turn = await relay(running, flow, events.behind)
            if is_partial(turn):
                await self._leave(run, turn)
                return turn
            run.node.thread.append(turn)
            await self._finish(run, turn)
            if self._interval == "turn":
                await flow.send([events.of(self._checkpoints.items[-1])])
            return turn

    async def resume(self, *, options: RunOptions | None = None) -> Turn:
        """Go on with the run that the current checkpoint is of, from the step after it.

        A run that needs no further step gives its turn again.

        Raises:
            InvalidInput: there is no checkpoint, or the session's own run calls it.
            Exception: as `run`.
        """
        async with self._alone():
            here, checkpoint = resuming_host(), self._resumable()
            run = SessionRun(self, *self._restore(checkpoint), state=state_copy(checkpoint.state))
            run.sub_agent_states.update(checkpoint.sub_agent_states)
            before = self.thread_tree.history()[: -len(checkpoint.spoken)]
            state, history = state_copy(checkpoint.state), sendable_history(before, checkpoint.spoken[0])
            with self._counted(run), running_in(run, here):
                turn = await here.resume(self._agent_of(run), history, state, options or RunOptions())
            run.node = place_turn(self.thread_tree, run.node, run.thread_length, turn)
            await self._finish(run, turn)
            return turn

    def fork(self, thread_id: str, name: str | None = None) -> str:
        """Make a branch of a tree node and return its id; the current node stays what it is.

        Raises:
            InvalidInput: there is no such node.
        """
        made = self.thread_tree.branch(thread_id, name)
        self._touch()
        return made

    async def restore(self, checkpoint_id: str) -> None:
        """Go back to a checkpoint: the next run's history ends where the checkpoint was taken.

        What was said since stays on its branch, untouched. Source: UAP-1.0 section 6.5, requirement 4.

        Raises:
            InvalidInput: there is no such checkpoint, or the session's own run calls it.
        """
        async with self._alone():
            self._restore(self._checkpoints.find(checkpoint_id))
            await self._saving.save_unasked()

    async def refresh(self) -> None:
        """Bring what the session shows up to date with what others have done to it.

        A session in process has nobody else; one of a connection may be gone on with by other processes.
        """

    async def save(self) -> None:
        """Put the session into its adapter, as JSON text under `session:<id>`.

        Raises:
            InvalidInput: metadata holds something that is not JSON.
            Exception: what the adapter raises.
        """
        await self._saving.save()

    @classmethod
    def from_json(
        cls,
        value: JSONValue,
        agent: Agent,
        *,
        checkpoints: bool = True,
        checkpoint_interval: Interval = "step",
        persistence: PersistenceAdapter | None = None,
    ) -> Session:
        """The session of a SessionJSON, or of its text; ids and dates stay as they are.

        Inside `async with connect():` the first call that is awaited stores it, or finds it stored.

        Args:
            value: what `to_json` made, `save` saved or another system wrote; it is not changed.
            agent: who goes on with it. The id of the agent that it was begun with is kept for `to_json`.
            checkpoints: as in `session`; it is not in the document.
            checkpoint_interval: likewise.
            persistence: likewise.

        Raises:
            InvalidInput: it is no session; the message begins with the JSON path of what is wrong.
        """
        document = read_session(value)
        options = SessionOptions(
            checkpoints=checkpoints, checkpoint_interval=checkpoint_interval, persistence=persistence
        )
        keeper = host.keeper()
        if keeper is None:
            return cls(agent, options, document=document)
        return keeper.open_session(agent, options, document)

    @asynccontextmanager
    async def _alone(self) -> AsyncGenerator[None]:
        if is_part_of(self):
            raise InvalidInput(f"session {self._id!r} is running this code; use fork, query or another session in it")
        async with self._running:
            yield

    def _begin(self) -> SessionRun:
        return SessionRun(self, self.thread_tree.current, len(self.thread_tree.current.thread))


def session(
    agent: Agent,
    *,
    id: str | None = None,
    checkpoints: bool = True,
    checkpoint_interval: Interval = "step",
    persistence: PersistenceAdapter | None = None,
    metadata: Mapping[str, Any] | None = None,
    limits: SessionLimits | None = None,
) -> Session:
    """Begin a session, or go on with a stored one. Source: UAP-1.0 section 6.1.

    Inside `async with connect():` it is durable: it is stored with its first run, its runs are carried out by workers,
    and any process goes on with it by its id. What it shows at once, as its tree and its checkpoints, is what the last
    call that was awaited found; of a session that other processes work on, `refresh` shows the news.

    Args:
        agent: whose session it is.
        id: a UUIDv4; drawn if left out. When connected, that of a stored session to go on with, if there is one.
        checkpoints: whether checkpoints are taken. A durable session takes them in any case, and does not show them.
        checkpoint_interval: "step" takes one at every step's end, "turn" one when the turn is in the thread. A durable
            session takes all, and shows with "turn" the last of each turn.
        persistence: where the session is saved: by `save`, and by itself at each checkpoint and turn, where a failure
            is logged and the run goes on. Without one it is kept in memory, and by `save` alone. A durable session is
            kept by the store whether it is saved or not, and puts a copy here after each turn.
        metadata: the user's own data, JSON.
        limits: what its runs may use together, counted from here on, or for a durable session from its beginning; of one
            that is stored they are changed to these. A run that reaches one ends as `LimitExceeded`; further ones are
            refused as `SessionLimitReached`.

    Raises:
        InvalidInput: an option that cannot be used; a durable session's agent has no name.
    """
    options = SessionOptions(
        id=id,
        checkpoints=checkpoints,
        checkpoint_interval=checkpoint_interval,
        persistence=persistence,
        metadata=metadata or {},
        limits=limits,
    )
    keeper = host.keeper()
    return Session(agent, options) if keeper is None else keeper.open_session(agent, options)
