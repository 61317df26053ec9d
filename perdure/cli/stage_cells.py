"""The rows of the tables of `perdure stages`."""

from __future__ import annotations

from perdure.cli.output import in_short
from perdure.runtime.shown import iso
from perdure.store.stages.definitions import ServedWorkflow
from perdure.store.stages.rows import ActionRow, StageSessionRow
from perdure.upp.json_value import JSONObject


def workflow_cells(served: ServedWorkflow) -> list[object]:
    """A row of `perdure stages workflows`."""
    definition = served.definition
    stages = " ".join(definition.stage_names)
    return [definition.name, in_short(stages, 60), iso(served.seen_at), in_short(definition.description, 60)]


def session_cells(row: StageSessionRow) -> list[object]:
    """A row of `perdure stages list`."""
    session = row.session
    made = iso(row.created_at)
    return [session.id, session.workflow, session.stage, session.status.value, session.taken, row.open_actions, made]


def wait_cells(row: ActionRow) -> list[object]:
    """A row of `perdure stages list --waiting`."""
    kind, asked_at = (None, None) if row.wait is None else (row.wait.kind, iso(row.wait.asked_at))
    return [row.key.session, row.id, kind, row.action.name, in_short(row.action.arguments, 60), asked_at]


def action_cells(shown: JSONObject, row: ActionRow) -> list[object]:
    """A row of `perdure stages history`; `shown` is the action as JSON has it."""
    what = row.action.name or in_short(" ".join(row.action.updates), 60)
    took = None if row.settled_at is None else f"{(row.settled_at - row.accepted_at).total_seconds():.2f} s"
    answered = None if row.reply is None else f"{row.reply.status} {row.status}".rstrip()
    return [
        row.ordinal,
        row.id,
        f"{row.action.kind.value} {what}",
        row.stage,
        row.state,
        answered,
        took,
        shown["child"],
    ]
