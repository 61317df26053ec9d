"""Tasks and offers of a stage as tools."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from perdure.uaip.definition import TaskSpec
from perdure.uaip.offers import Offer
from perdure.uaip.retry import RetrySpec
from perdure.upp.tool_retry import ToolRetry
from perdure.upp.tools import HUMAN, Tool, ToolEffect


def stage_tool(spec: TaskSpec, run: Callable[..., object]) -> Tool:
    """A task as a tool: its effect, times, retry and approval are the tool's.

    Args:
        spec: of the definition that the run has frozen.
        run: takes the arguments and the ToolContext.
    """
    return Tool(
        spec.name,
        spec.description,
        spec.parameters,
        run=run,
        approval=HUMAN if spec.approval else None,
        effect=ToolEffect(spec.effect),
        timeout=_time(spec.timeout_s),
        takes_context=True,
        approval_timeout=_time(spec.approval_timeout_s),
        retry=_retry(spec.retry),
    )


def offered_tool(offer: Offer) -> Tool:
    """What a model is shown of an offer; who carries it out is known when it is called."""
    return Tool(offer.name, offer.description, offer.parameters, run=None)


def _time(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


def _retry(retry: RetrySpec) -> ToolRetry | None:
    if retry.attempts == 1:
        return None
    return ToolRetry(
        max_attempts=retry.attempts,
        initial=timedelta(seconds=retry.wait_s),
        factor=retry.factor,
        longest=timedelta(seconds=retry.longest_s),
        jitter=False,
    )
