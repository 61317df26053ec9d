"""What middleware of a durable run is given: its context, out of the rows and of what the workflow says was spent."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast

from perdure.activities.contracts import AroundInput, Progress
from perdure.activities.conversation import messages_before, submitted_before
from perdure.activities.services import Place, Services
from perdure.errors import DamagedSession, RunError, StrategyError
from perdure.store.answers import Writer
from perdure.store.messages import read_messages
from perdure.store.views import RunView, read_parent_ids
from perdure.uap.agent import Agent
from perdure.uap.middleware import MiddlewareContext
from perdure.uap.middleware_usage import MiddlewareUsage
from perdure.uap.scaffold import NAMESPACE
from perdure.uap.spent import Spent
from perdure.upp.json_value import JSONObject, dumps, jsonable
from perdure.upp.redaction import known_secrets
from perdure.upp.usage import TokenUsage


@dataclass(frozen=True, slots=True)
class StoredSession:
    """The session of a durable run as its middleware knows it."""

    id: str


async def read_context(
    services: Services, writer: Writer, agent: Agent, call: AroundInput, view: RunView | None
) -> MiddlewareContext:
    """The context; before its middleware was entered that of the submit, afterwards as `before` left it.

    Raises:
        DamagedSession: a message is missing or does not have its hash.
    """
    place = Place(call.node, call.start, call.epoch)
    options = await services.options(writer)
    given = await read_messages(
        services.database, writer.key, call.node, first=call.start, end=call.start + 1, discarded=True
    )
    if not given:
        raise DamagedSession(f"session {call.session} lacks the input of run {call.run}", run_id=call.run)
    before = submitted_before if view is None else messages_before
    return MiddlewareContext(
        agent=agent,
        input=given[0].message,
        history=await before(services, writer, place, options),
        metadata=await _first_metadata(services, writer, agent) if view is None else deepcopy(view.metadata),
        session=StoredSession(call.session),
        spent=spent_by(call.progress),
        used=MiddlewareUsage(services.prices),
        secrets=services.app.secrets,
    )


async def _first_metadata(services: Services, writer: Writer, agent: Agent) -> dict[str, Any]:
    """Which run it is and whose sub-agent's, as in process. Source: UAP-1.0 section 8.4."""
    parents = await read_parent_ids(services.database, writer)
    return {NAMESPACE: {"agentId": agent.id, "turnId": writer.run, **parents}}


def spent_by(progress: Progress) -> Spent:
    """What a run and its sub-agents had spent at a step's end: counted by the workflow, so that no repetition adds to it."""
    usage = TokenUsage.from_json(progress.usage or {})
    spent = Spent(usage.total_tokens, progress.step, usage.cost if progress.cycles else Decimal(0))
    for child in progress.usage_by_agent.values():
        spent = spent.after_child({"usage": cast(JSONObject, child)})
    return spent


def metadata_of(context: MiddlewareContext) -> JSONObject:
    """The context's metadata as it is stored, without secrets.

    Raises:
        StrategyError: it is not JSON.
    """
    try:
        metadata: Any = jsonable(context.metadata)
        dumps(metadata)
    except (TypeError, ValueError) as error:
        raise StrategyError(f"middleware left metadata that is not JSON: {error}") from error
    return known_secrets.json(metadata)


def with_run(error: Exception, run: str) -> Exception:
    """The error, which knows its run from now on if it is one that can."""
    if isinstance(error, RunError):
        error.run_id = error.run_id or run
    return error
