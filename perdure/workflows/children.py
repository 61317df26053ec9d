"""Sub-agents of a run: each call of one is a child workflow, the session that serves it. See `open_child` for its rows."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from datetime import timedelta

from perdure.activities.border import describe
from perdure.activities.contracts import CallToolInput, CallToolResult, ParentLink, SessionInput
from perdure.errors import LimitExceeded
from perdure.uap.child_options import child_options
from perdure.uap.ids import child_session_id
from perdure.uap.options import RunOptions
from perdure.uap.spec import ToolSpec
from perdure.workflows.in_hand import RunInHand
from perdure.workflows.open_child import OpenChild

_FIRST_PAUSE = timedelta(milliseconds=200)
_LONGEST_PAUSE = timedelta(seconds=60)


class ChildCalls:
    """The calls of sub-agents of one run."""

    def __init__(self, run: RunInHand, ask: Callable[[CallToolInput], Awaitable[CallToolResult]]) -> None:
        """Start the sub-agents of a run.

        Args:
            run: whose they are.
            ask: schedules the activity that stores what a sub-agent's run came to; "elsewhere" if it has not ended.
        """
        self._run = run
        self._ask = ask

    async def call(self, request: CallToolInput, spec: ToolSpec, call_id: str) -> CallToolResult:
        """Run a sub-agent and take its result, also if the run is cancelled meanwhile: what it used counts.

        Where an execution before this one may have started it, the store is asked first.
        """
        run = self._run
        request = dataclasses.replace(request, child=child_session_id(request.message, request.index))
        child = OpenChild(run.start.tenant, request.child)
        run.children[request.child] = child
        try:
            await run.parking.hold()
            if request.adopted:
                result = await self._take(request, call_id)
                if result.kind != "elsewhere":
                    return result
            return await self._until_ended(child, request, spec, call_id)
        finally:
            del run.children[request.child]

    async def _until_ended(
        self, child: OpenChild, request: CallToolInput, spec: ToolSpec, call_id: str
    ) -> CallToolResult:
        run = self._run
        pause = _FIRST_PAUSE
        options, refused = self._allowed()
        if refused is not None:
            refusal = dataclasses.replace(request, refused=describe(refused))
            result = await self._take(refusal, call_id)
            if result.kind != "elsewhere":  # else it is open already, with the options that it was opened with
                return result
        while True:
            run.started.append(run.step.call_place(request.index))
            await self._execute(child, request, spec, options)
            result = await self._take(request, call_id)
            if result.kind != "elsewhere":
                return result
            # Its execution is another's, or was lost before its run had ended; then the next one goes on from its rows.
            await run.parking.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _allowed(self) -> tuple[RunOptions, LimitExceeded | None]:
        """The options of a sub-agent's run, and why it may not begin."""
        run = self._run
        try:
            spent = run.spent()
            left, session = run.clock.left_s, run.allowance
            return child_options(run.options, spent.cost, spent.total_tokens, seconds=left, session=session), None
        except LimitExceeded as error:
            return run.options, error

    async def _take(self, request: CallToolInput, call_id: str) -> CallToolResult:
        result = await self._ask(request)
        if result.kind == "result":
            self._run.take_child(call_id, request.child, result.usage_by_agent)
        self._run.parking.check_cancelled()
        return result

    async def _execute(self, child: OpenChild, request: CallToolInput, spec: ToolSpec, options: RunOptions) -> None:
        """Have the child's session open until its execution has ended, whichever way; at once if it is open already."""
        run = self._run
        link = ParentLink(run.start.session, run.frame.run, request.message, request.index, options.to_json())
        start = SessionInput(run.start.tenant, request.child, spec.agent, parent=link)
        await child.until_ended(start, sandboxed=spec.sandboxed)


async def pass_on(run: RunInHand, kind: str, control: str) -> None:
    """Tell all open sub-agents to pause or to resume; theirs are told by them."""
    await asyncio.gather(*(child.tell(kind, control) for child in list(run.children.values())))
