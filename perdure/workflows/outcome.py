"""What a run is given, and what its work comes to: whatever it raises is a status, typed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from temporalio.exceptions import FailureError

from perdure.activities.border import describe, from_failure
from perdure.activities.contracts import RunFrame
from perdure.errors import PerdureError, SessionGone, StrategyError
from perdure.uap.options import RunOptions
from perdure.uap.strategy import StrategyContext
from perdure.upp.messages import message_from_json
from perdure.workflows.effects import TemporalEffects


async def outcome_of(work: Coroutine[Any, Any, dict[str, Any] | None]) -> tuple[str, dict[str, Any] | None]:
    """What work comes to: completed, or failed with what it returned or raised, or cancelled.

    Raises:
        SessionGone: the session is deleted; there is nothing to write an outcome to.
    """
    try:
        error = await work
    except SessionGone:
        raise
    except asyncio.CancelledError:
        return "cancelled", None
    except FailureError as failure:
        return "failed", describe(from_failure(failure))
    except PerdureError as failure:
        return "failed", describe(failure)
    except Exception as failure:  # noqa: BLE001 - whatever a strategy raises ends its run, typed
        text = f"{type(failure).__name__}: {failure}"
        return "failed", describe(StrategyError(text, code=type(failure).__name__))
    return ("completed", None) if error is None else ("failed", error)


def context_of(frame: RunFrame, effects: TemporalEffects) -> StrategyContext:
    """What the run's strategy is given."""
    return StrategyContext(
        agent=frame.spec,
        input=message_from_json(frame.input),
        options=RunOptions.from_json(frame.options),
        state=effects.state,
        effects=effects,
        own=effects.own,
    )
