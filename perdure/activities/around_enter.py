"""A run's middleware before it: `before` is called, and what it left of the run is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from perdure.activities.around_context import metadata_of, with_run
from perdure.activities.contracts import AroundInput, AroundResult
from perdure.activities.lifeline import STORE_PATIENCE
from perdure.activities.redaction import clean_message, clean_messages, described
from perdure.activities.services import Services
from perdure.errors import StrategyError
from perdure.store.answers import Writer
from perdure.store.database import keep_trying
from perdure.store.views import RunView, read_run_view, save_entered
from perdure.testing.crash import crash_point
from perdure.uap.agent import Agent
from perdure.uap.cut import cut_input
from perdure.uap.ids import derive_id
from perdure.uap.middleware import MiddlewareContext, enter
from perdure.uap.recorded_usage import plain_usage
from perdure.upp.json_value import JSONObject, dumps, sha256_hex
from perdure.upp.messages import Message, UserMessage


async def enter_run(
    services: Services, writer: Writer, agent: Agent, call: AroundInput, context: MiddlewareContext
) -> AroundResult:
    """Call `before`, and store what it left; if another call was first, what that one stored counts."""
    given, before = context.input, list(context.history)
    entered = await enter(agent.middleware, context)
    crash_point("around.entered")
    view, metadata = entered.context, dict[str, object]()
    error = entered.error
    try:
        metadata = cast("dict[str, object]", metadata_of(view))
        _check_input(view.input)
        view.input, view.history = clean_message(view.input), clean_messages(view.history, but=before)
    except StrategyError as wrong:
        error = error or wrong
    changed = error is None and view.input != given
    body = dumps(view.input.to_json()) if changed else None
    stored = RunView(
        entered=entered.count,
        metadata=metadata,
        start=call.start + changed,
        input=cut_input(view.input).to_json() if changed else None,
        error=None if error is None else described(with_run(error, call.run)),
        used={path: plain_usage(usage) for path, usage in context.used.by_path(call.agent).items()},
    )
    named: JSONObject | None = None
    if body is not None:
        named = {"id": derive_id(call.run, "input"), "sha256": sha256_hex(body)}

    async def save() -> tuple[str, int]:
        return await save_entered(
            services.database, writer, call.node, call.start, stored,
            items=view_items(before, view.history), input=named, body=body,
        )  # fmt: skip

    crash_point("around.entry_storing")
    kind, epoch = await keep_trying(save, deadline=STORE_PATIENCE)
    crash_point("around.entry_stored")
    if kind not in ("won", "stored"):
        return AroundResult(kind=kind)
    known = await keep_trying(lambda: read_run_view(services.database, writer), deadline=STORE_PATIENCE)
    return entered_result(known or stored, epoch)


def entered_result(view: RunView, epoch: int) -> AroundResult:
    """What the workflow is told of a run whose middleware was entered."""
    return AroundResult(epoch, view.start + 1, view.input, error=view.error, usage_by_agent=view.used)


def view_items(before: Sequence[Message], history: Sequence[Message]) -> list[JSONObject] | None:
    """The history that `before` left, by reference to the messages that were there; None if it left all as they were.

    See `perdure.activities.conversation.resolve` for the items.
    """
    places = {id(message): place for place, message in enumerate(before)}
    items: list[JSONObject] = []
    last = -1
    for message in history:
        place = places.get(id(message))
        if place is None:
            items.append({"message": message.to_json()})
        elif items and "before" in items[-1] and last == place:
            items[-1]["before"] = [cast("list[int]", items[-1]["before"])[0], place + 1]
        else:
            items.append({"before": [place, place + 1]})
        last = -1 if place is None else place + 1
    unchanged: list[JSONObject] = [{"before": [0, len(before)]}] if before else []
    return None if items == unchanged else items


def _check_input(message: Message) -> None:
    if not isinstance(message, UserMessage):
        kind = type(message).__name__
        raise StrategyError(f"middleware left a {kind} as the input; a durable run begins with a UserMessage")
