"""Inputs that join the run in hand: they are said before the first model call of a step."""

from __future__ import annotations

from perdure.activities.contracts import TakeSteersInput
from perdure.uap.checkpoint import MessageMark
from perdure.upp.messages import message_from_json
from perdure.workflows import calls
from perdure.workflows.in_hand import RunInHand
from perdure.workflows.signals import SignalBox


class Steering:
    """The inputs that join one run.

    Attributes:
        joined: some have joined in the step in hand. An execution that takes that step up has to ask for them again.
    """

    def __init__(self, run: RunInHand, signals: SignalBox) -> None:
        """Let inputs join `run`; the store is asked only if `signals` says that there may be one."""
        self._run = run
        self._signals = signals
        self._step = 0

    @property
    def joined(self) -> bool:
        return self._step == self._run.step.number

    async def take(self) -> None:
        """Let those join that wait, if nothing of the step has been said yet; returns when the run may go on.

        Raises:
            asyncio.CancelledError: the run is to be cancelled, or has ended.
        """
        run, step = self._run, self._run.step
        while self._signals.steered and not step.answers and not step.scaffolds:
            self._signals.steered = False
            await self._join()
            await run.parking.hold()  # the session may have been paused meanwhile

    async def _join(self) -> None:
        run, step = self._run, self._run.step
        call = TakeSteersInput(
            run.start.tenant, run.start.session, run.frame.run, run.frame.node, run.position, step.number
        )
        result = await calls.take_steers(call)
        run.check_kind(result.kind)
        for message, row in zip(result.messages, result.rows, strict=True):
            run.state.messages.append(message_from_json(message))
            step.marks.append(MessageMark(row["id"], row["sha256"]))
            run.position += 1
            self._step = step.number
