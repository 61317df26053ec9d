"""`session(...)`: an agent with a conversation that goes on, checkpoints to go back to, and a document of it all.

Sessions here live in this process. Source: UAP-1.0 sections 6 and 13.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from perdure.errors import InvalidInput
from perdure.uap import host
from perdure.uap.active_session import SessionRun, in_run, is_part_of
from perdure.uap.agent import Agent
from perdure.uap.hooks import state_copy
from perdure.uap.ids import new_id
from perdure.uap.open_calls import sendable_history
from perdure.uap.options import RunOptions
from perdure.uap.persistence import PersistenceAdapter
from perdure.uap.session_checkpoints import Checkpoint, CheckpointList
from perdure.uap.session_document import read_session
from perdure.uap.session_json import VERSION
from perdure.uap.session_options import Interval, SessionOptions, json_metadata
from perdure.uap.session_place import place_turn, restored_place
from perdure.uap.session_saving import SessionSaving
from perdure.uap.session_watch import ResumingHost, turn_checkpoint, watched
from perdure.uap.state import ExecutionState
from perdure.uap.thread_node import ThreadNode
from perdure.uap.thread_tree import ThreadTree
from perdure.upp.json_value import JSONObject, JSONValue, jsonable
from perdure.upp.messages import Message, UserMessage
from perdure.upp.timestamp import format_timestamp, now
from perdure.upp.turn import Turn


class Session:
    """An agent with a conversation that goes on. Made by `session(...)`. Source: UAP-1.0 section 6.1, Session.

    Runs come one after another; a second one waits. A run that fails leaves the threads as they were, and its
    checkpoints in the list: from there `resume` goes on.

    Attributes:
        agent: whose session it is.
        thread_tree: the conversation; it may be branched, merged and checked out between runs.
        metadata: the user's own data, JSON. Threads of `query` inside a run are under `queries`, by thread id.
    """

    def __init__(self, agent: Agent, options: SessionOptions | None = None) -> None:
        """See `session`."""
        chosen = options or SessionOptions()
        self._id = chosen.id or new_id()
        self.agent = agent
        self._agent_id = agent.id
        self.thread_tree = ThreadTree()
        self.metadata = json_metadata(chosen.metadata)
        self._checkpoints = CheckpointList()
        self._interval: Interval | None = chosen.interval
        self._created_at = self._updated_at = format_timestamp(now())
        self._saving = SessionSaving(self._id, self.to_json, chosen.persistence)
        self._running = asyncio.Lock()

    @property
    def id(self) -> str:
        """A UUIDv4, unless another system wrote it."""
        return self._id

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """All checkpoints, oldest first, those of failed runs and left branches too; a list of the caller's own."""
        return list(self._checkpoints.items)

    @property
    def current_checkpoint(self) -> Checkpoint | None:
        """The latest checkpoint, or the one restored after it; None before the first."""
        return self._checkpoints.current

    @property
    def state(self) -> ExecutionState | None:
        """What the run had come to at the current checkpoint, as a copy; None before the first."""
        current = self._checkpoints.current
        return None if current is None else state_copy(current.state)

    async def run(self, input: str | Message, /, *, options: RunOptions | None = None) -> Turn:
        """Run the agent on one input after the current node's history, and append the turn to that node's thread.

        Raises:
            InvalidInput: the session's own run calls it, or the host here keeps sessions of its own.
            Exception: what `Agent.run` raises; the threads are as they were, a checkpoint per ended step is kept.
        """
        message = UserMessage(input) if isinstance(input, str) else input
        async with self._alone():
            _resuming_host()
            run = SessionRun(self, self.thread_tree.current, len(self.thread_tree.current.thread))
            history = sendable_history(self.thread_tree.history(), message)
            with in_run(run):
                turn = await self._agent_of(run).run(history, message, options=options)
            run.node.thread.append(turn)
            await self._finish(run, turn)
            return turn

    async def resume(self, *, options: RunOptions | None = None) -> Turn:
        """Go on with the run that the current checkpoint is of, from the step after it.

        A run that needs no further step gives its turn again.

        Raises:
            InvalidInput: there is no checkpoint, the session's own run calls it, or the host here cannot do it.
            Exception: as `run`.
        """
        async with self._alone():
            checkpoint, resuming = self._checkpoints.current, _resuming_host()
            if checkpoint is None or not checkpoint.spoken:
                raise InvalidInput(f"session {self._id!r} has no checkpoint of a run; start one with run(input)")
            run = SessionRun(self, *self._restore(checkpoint), state=state_copy(checkpoint.state))
            run.sub_agent_states.update(checkpoint.sub_agent_states)
            before = self.thread_tree.history()[: -len(checkpoint.spoken)]
            state, history = state_copy(checkpoint.state), sendable_history(before, checkpoint.spoken[0])
            with in_run(run):
                turn = await resuming.resume(self._agent_of(run), history, state, options or RunOptions())
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

    async def save(self) -> None:
        """Put the session into its adapter, as JSON text under `session:<id>`.

        Raises:
            InvalidInput: metadata holds something that is not JSON.
            Exception: what the adapter raises.
        """
        await self._saving.save()

    def to_json(self) -> JSONObject:
        """Returns UAP's SessionJSON, which shares nothing with the session. Source: UAP-1.0 section 13.1.

        Raises:
            InvalidInput: metadata holds something that is not JSON.
        """
        return {
            "version": VERSION,
            "id": self._id,
            "agentId": self._agent_id,
            "createdAt": self._created_at,
            "updatedAt": self._updated_at,
            "threadTree": jsonable(self.thread_tree.to_json()),
            "checkpoints": self._checkpoints.to_json(),
            "metadata": json_metadata(self.metadata),
        }

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
        made = cls(agent, options)
        made._id, made._agent_id, made.thread_tree = document.id, document.agent_id, document.tree
        made._created_at, made._updated_at = document.created_at, document.updated_at
        made._checkpoints, made.metadata = document.checkpoints, document.metadata
        made._saving = SessionSaving(made._id, made.to_json, persistence)
        return made

    @asynccontextmanager
    async def _alone(self) -> AsyncGenerator[None]:
        if is_part_of(self):
            raise InvalidInput(f"session {self._id!r} is running this code; use fork, query or another session in it")
        async with self._running:
            yield

    def _agent_of(self, run: SessionRun) -> Agent:
        return self.agent if self._interval is None else watched(run, self._interval, self._keep)

    def _restore(self, checkpoint: Checkpoint) -> tuple[ThreadNode, int]:
        node, older = restored_place(self.thread_tree, checkpoint)
        self.thread_tree.checkout(node.id)
        self._checkpoints.current = checkpoint
        self._touch()
        return node, older

    async def _keep(self, checkpoint: Checkpoint) -> None:
        self._checkpoints.add(checkpoint)
        self._touch()
        await self._saving.save_unasked()

    async def _finish(self, run: SessionRun, turn: Turn) -> None:
        if self._interval == "turn":
            await self._keep(turn_checkpoint(run, turn))
            return
        self._checkpoints.finish(run, turn.messages)
        self._touch()
        await self._saving.save_unasked()

    def _touch(self) -> None:
        self._updated_at = format_timestamp(now())


def session(
    agent: Agent,
    *,
    id: str | None = None,
    checkpoints: bool = True,
    checkpoint_interval: Interval = "step",
    persistence: PersistenceAdapter | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Session:
    """Begin a session. Source: UAP-1.0 section 6.1.

    Args:
        agent: whose session it is.
        id: a UUIDv4; drawn if left out.
        checkpoints: whether checkpoints are taken.
        checkpoint_interval: "step" takes one at every step's end, "turn" one when the turn is in the thread.
        persistence: where the session is saved: by `save`, and by itself at each checkpoint and turn, where a failure
            is logged and the run goes on. Without one it is kept in memory, and by `save` alone.
        metadata: the user's own data, JSON.

    Raises:
        InvalidInput: an option that cannot be used.
    """
    options = SessionOptions(
        id=id,
        checkpoints=checkpoints,
        checkpoint_interval=checkpoint_interval,
        persistence=persistence,
        metadata=metadata or {},
    )
    return Session(agent, options)


def _resuming_host() -> ResumingHost:
    """The host here, if a session of this process can see the steps of its runs.

    Raises:
        InvalidInput: runs go to workers, whose hooks this process does not hear.
    """
    current = host.current()
    if not isinstance(current, ResumingHost):
        raise InvalidInput(
            "session() keeps its checkpoints in this process and runs outside `async with connect():` only; inside, "
            "submit to a durable session: sessions.submit(agent, input, session=id)"
        )
    return current
