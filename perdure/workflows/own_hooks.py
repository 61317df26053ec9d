"""The call of a hook by a strategy of the user's own, as an activity's input: by reference where there is one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from perdure.activities.contracts import CallUserInput
from perdure.uap.hooks import HookCall
from perdure.uap.own_effects import plain_metadata
from perdure.uap.state import ExecutionState
from perdure.upp.turn import Turn
from perdure.workflows.in_hand import RunInHand
from perdure.workflows.known_messages import KnownMessages
from perdure.workflows.step import totals


def own_hook(run: RunInHand, known: KnownMessages, call: HookCall) -> CallUserInput:
    """The input; what `own` holds is read by `perdure.activities.own_hook`.

    Raises:
        StrategyError: the metadata is not JSON, or a message of the strategy's own is too long.
    """
    state = call.state
    plan = None if state.plan is None else [item.to_json() for item in state.plan]
    return CallUserInput(
        tenant=run.start.tenant,
        session=run.start.session,
        run=run.frame.run,
        agent=run.frame.spec.name,
        hook=call.hook.value,
        step=call.step,
        node=run.frame.node,
        start=run.frame.start,
        position=run.position,
        epoch=run.frame.epoch,
        step_position=run.step.position,
        progress=replace(run.progress(), step=state.step, metadata=plain_metadata(state), plan=plan),
        own=_own(known, call, state),
    )


def _own(known: KnownMessages, call: HookCall, state: ExecutionState) -> dict[str, Any]:
    own: dict[str, Any] = {
        "messages": known.items(state.messages),
        "traces": [known.text(text) for text in state.reasoning],
        "turn": _turn(known, call.turn),
        "reasoning": known.text(call.reasoning) if call.reasoning else None,
        "actions": known.part([item.to_json() for item in call.actions]),
        "observations": known.part([item.to_json() for item in call.observations]),
    }
    return {name: value for name, value in own.items() if value}


def _turn(known: KnownMessages, turn: Turn | None) -> dict[str, Any] | None:
    if turn is None:
        return None
    return {"messages": known.items(turn.messages), "usage": totals(turn.usage), "cycles": turn.cycles}
