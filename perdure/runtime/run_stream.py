"""Durable runs as streams: followed through their event log, cancelled when their reader leaves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

from perdure.errors import RunCancelled, RunError, ServerError
from perdure.runtime.agent_events import OpenAnswer
from perdure.runtime.followed_run import EventChoice, FollowedRun
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.store.database import Database
from perdure.store.executions import read_executions
from perdure.store.messages import StoredMessage, read_messages
from perdure.store.run_messages import usage_of
from perdure.store.runs import RunRow
from perdure.uap.agent_stream import AgentStreamEvent, AgentStreamResult, is_aborted
from perdure.uap.partial_turn import partial_answer, partial_turn
from perdure.uap.scaffold import scaffold_of
from perdure.uap.session_stream import is_partial
from perdure.upp.errors import UPPError
from perdure.upp.event_flow import Flow
from perdure.upp.messages import Message
from perdure.upp.turn import Turn
from perdure.upp.usage import empty_usage

Submit: TypeAlias = Callable[[], Coroutine[Any, Any, RunHandle]]
Ended: TypeAlias = Callable[[RunHandle, Turn], Coroutine[Any, Any, None]]
Failed: TypeAlias = Callable[[RunHandle], None]
Around: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]

_CANCEL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Ends:
    """Who is told of a run's end; see `RunStreams.open`."""

    ended: Ended | None
    failed: Failed | None

    async def of(self, handle: RunHandle) -> Turn:
        """The turn of a run. Raises what failed it."""
        try:
            turn = await handle.result()
        except RunCancelled:
            raise
        except (RunError, UPPError):
            if self.failed is not None:
                self.failed(handle)
            raise
        if self.ended is not None:
            await self.ended(handle, turn)
        return turn


class RunStreams:
    """The streams that are read through one connection."""

    def __init__(self, sessions: Sessions) -> None:
        """Follow and cancel runs through `sessions`."""
        self._sessions = sessions
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""
        return self._closed

    def open(
        self,
        submit: Submit,
        agent_id: str,
        message: Message,
        *,
        around: Around = contextlib.nullcontext,
        choice: EventChoice | None = None,
        sub_agents: bool = False,
        ended: Ended | None = None,
        failed: Failed | None = None,
    ) -> AgentStreamResult:
        """The stream of a run that is submitted when the stream is first read.

        Args:
            submit: hands the input in; called once.
            agent_id: whose events they are.
            message: the input.
            around: entered before the input is handed in, left when the turn is there or the run has failed.
            choice: which of the run's events are given; by default all.
            sub_agents: whether those of sub-agents are given too, with their path.
            ended: is told of the turn of a run that was not cancelled.
            failed: is told of a run that failed.
        """
        ends = _Ends(ended, failed)

        async def work(flow: Flow[AgentStreamEvent]) -> Turn:
            followed = FollowedRun(self._sessions, flow, choice or EventChoice(), sub_agents=sub_agents)
            turn = await self._work(followed, submit, agent_id, message, around, ends)
            if choice is not None and not is_partial(turn):
                await flow.send(choice.rest())
            return turn

        return AgentStreamResult(work, [message])

    async def close(self) -> None:
        """Let runs be cancelled whose readers left; end the other streams. Their runs go on."""
        await asyncio.sleep(0)  # an iteration that was left just now aborts in the loop's next round
        await asyncio.gather(*(task for task in self._tasks if task.cancelling()), return_exceptions=True)
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _work(
        self,
        followed: FollowedRun,
        submit: Submit,
        agent_id: str,
        message: Message,
        around: Around,
        ends: _Ends,
    ) -> Turn:
        task = asyncio.current_task()
        assert task is not None, "a stream's work is a task"
        self._tasks.add(task)
        try:
            async with around():
                return await self._run(followed, submit, agent_id, message, ends)
        except asyncio.CancelledError:
            if self._closed:
                raise ServerError("the connection was closed before the stream was read; the run goes on") from None
            if not is_aborted():
                raise RunCancelled("the stream was cancelled from within") from None
            raise
        finally:
            self._tasks.discard(task)

    async def _run(self, followed: FollowedRun, submit: Submit, agent_id: str, message: Message, ends: _Ends) -> Turn:
        submitted = asyncio.create_task(submit(), name="submit")  # not cut off half way: the run could not be cancelled
        try:
            handle = await asyncio.shield(submitted)
            await followed.follow(handle, agent_id)
            return await ends.of(handle)
        except asyncio.CancelledError:
            if self._closed or not is_aborted():
                raise
            return await self._cancel(await submitted, followed.answer, message)

    async def _cancel(self, handle: RunHandle, answer: OpenAnswer, message: Message) -> Turn:
        """Cancel the run; the turn of what is stored of it. A run that ended before is what it came to."""
        await self._sessions.cancel(handle.session, run=handle.id, wait_s=_CANCEL_SECONDS)
        row = await handle.status()
        if row.status in ("completed", "failed"):
            return await handle.result()
        return await _partial_turn(self._sessions.database, row, answer, message)


async def _partial_turn(database: Database, run: RunRow, answer: OpenAnswer, message: Message) -> Turn:
    """What there is of a run that was cancelled, or will be as soon as a worker is there."""
    if run.node is None or run.start_position is None:
        return partial_turn([message], [], empty_usage(), 0)
    stored = await read_messages(database, run.key, run.node, first=run.start_position, discarded=True)
    own = [item for item in stored if item.run == run.id and _may_be_told(item)]
    messages = [item.message for item in own] or _input_of(run, stored, message)
    text = "".join(answer.text)
    if text.strip() and answer.message not in {item.id for item in own}:
        messages.append(partial_answer(text))
    executions = await read_executions(database, run.key, run.id, own)
    return partial_turn(messages, executions, usage_of(own), run.cycles)


def _input_of(run: RunRow, stored: list[StoredMessage], message: Message) -> list[Message]:
    """The input of a run that left nothing in the thread: as its middleware had it, which stands last."""
    own = [item.message for item in stored if item.run == run.id and not item.unchecked]
    return [item for item in own if item.type == "user" and not scaffold_of(item)][-1:] or [message]


def _may_be_told(item: StoredMessage) -> bool:
    """Whether a message may be in a partial turn: not one that output guards have not seen, or that was replaced."""
    return item.is_of_turn and not item.unchecked
