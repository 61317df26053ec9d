"""Calling one of an agent's lifecycle hooks: the same in both hosts, never in workflow code."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from perdure.errors import StrategyError
from perdure.uap.hooks import AgentStrategy, Hook, HookCall, HookOutcome, StepResult
from perdure.uap.user_call import call_user
from perdure.upp.json_value import JSONObject, jsonable
from perdure.upp.turn import Turn


async def call_hook(strategy: AgentStrategy, call: HookCall) -> HookOutcome:
    """Call a hook that there is.

    Raises:
        StrategyError: the hook left metadata that is not JSON, or on_error returned something else than a Turn.
        Exception: what the hook raised.
    """
    function = cast("Callable[..., object]", getattr(strategy, call.hook.value))
    returned = await call_user(function, *_arguments(call))
    if call.hook is Hook.ERROR and returned is not None and not isinstance(returned, Turn):
        raise StrategyError(f"on_error returned a {type(returned).__name__}; it must return a Turn or None")
    return HookOutcome(
        metadata=_metadata(call),
        stop=bool(returned) if call.hook is Hook.STOP else False,
        turn=returned if isinstance(returned, Turn) and call.hook is Hook.ERROR else None,
    )


def _arguments(call: HookCall) -> tuple[object, ...]:
    match call.hook:
        case Hook.STOP:
            return (call.state,)
        case Hook.STEP_START:
            return call.step, call.state
        case Hook.REASON:
            return call.step, call.reasoning
        case Hook.ACT:
            return call.step, call.actions
        case Hook.OBSERVE:
            return call.step, call.observations
        case Hook.STEP_END:
            return call.step, StepResult(cast(Turn, call.turn), call.state)
        case Hook.COMPLETE:
            return (call.turn,)
        case Hook.ERROR:
            return call.error, call.state


def _metadata(call: HookCall) -> JSONObject:
    try:
        return cast(JSONObject, jsonable(call.state.metadata))
    except TypeError as error:
        raise StrategyError(f"{call.hook.value} left metadata that is not JSON: {error}") from error
