"""What a session keeps of its runs: checkpoints, turns and what was used; and how it goes back to a checkpoint."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

from perdure.errors import InvalidInput
from perdure.uap.active_session import SessionRun
from perdure.uap.agent import Agent
from perdure.uap.session_checkpoints import Checkpoint
from perdure.uap.session_limits import SessionUsed
from perdure.uap.session_place import restored_place
from perdure.uap.session_stream import CheckpointEvents, says_something
from perdure.uap.session_view import SessionView
from perdure.uap.session_watch import Keep, turn_checkpoint, watched
from perdure.uap.thread_node import ThreadNode
from perdure.upp.timestamp import format_timestamp, now
from perdure.upp.turn import Turn


class SessionKeeping(SessionView):
    """A session's parts, and how its runs change them."""

    def _agent_of(self, run: SessionRun, keep: Keep | None = None) -> Agent:
        return self.agent if self._interval is None else watched(run, self._interval, keep or self._keep)

    def _followed(self, run: SessionRun) -> Agent:
        """The agent of a run that nobody streams; who follows its parent's run is told of its checkpoints, too."""
        events = CheckpointEvents(self.agent.id)
        run.behind = events.behind

        async def keep(checkpoint: Checkpoint) -> None:
            events.took(checkpoint)
            await self._keep(checkpoint)

        return self._agent_of(run, keep)

    @contextmanager
    def _counted(self, run: SessionRun) -> Generator[None]:
        """Count what the run uses, however it ends.

        Raises:
            SessionLimitReached: the session's runs have used all that they may.
        """
        self._allow(run)
        began = time.monotonic()
        try:
            yield
        finally:
            self._usage.add(run.usage_by_agent)
            self._steps += run.steps
            self._seconds += time.monotonic() - began

    def _allow(self, run: SessionRun) -> None:
        """Give the run what is left of the session's limits; one that goes on counts what it had used before itself."""
        if self._limits is None:
            return
        used = SessionUsed.by(self._steps, self._usage.total, self._seconds)
        self._limits.check(used, self._id)
        before = used if run.state is None else used.less(run.state.step, run.state.usage)
        run.allowance = self._limits.left(before)

    def _resumable(self) -> Checkpoint:
        checkpoint = self.current_checkpoint
        if checkpoint is None or not checkpoint.spoken:
            raise InvalidInput(f"session {self._id!r} has no checkpoint of a run; start one with run(input)")
        return checkpoint

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

    async def _leave(self, run: SessionRun, partial: Turn) -> None:
        """Keep what an aborted run has said; from its last checkpoint it can still be gone on with."""
        if says_something(partial):
            run.node.thread.append(partial)
            self._touch()
            await self._saving.save_unasked()

    def _touch(self) -> None:
        self._updated_at = format_timestamp(now())
