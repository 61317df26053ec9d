"""How a run begins: the session's next input is taken, or the run that is open is found."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from perdure.store.answers import Writer
from perdure.store.database import Database
from perdure.store.json_text import escaped_json
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, loads


@dataclass(frozen=True, slots=True)
class Begun:
    """What `begin_run` found.

    Attributes:
        kind: "new"; "adopted" (a run that was open); "nothing"; "gone" (no such session, or being deleted); "agent"
            (the session belongs to another agent, named in `agent`); "control" (the input `ordinal` is no message);
            "rollback" (the input `ordinal` wants what came before its target run to be checked out).
        paused: the session is paused.
        row: of a new or adopted run: run, node, start, epoch, spec, message, message_sha, execution; `limited` if its
            session has limits.
        options: its options' JSON.
        ordinal: of a control or a rollback.
        progress: of a new run that goes on from a checkpoint: where it stands, as Progress.
    """

    kind: str
    paused: bool = False
    agent: str | None = None
    row: JSONObject | None = None
    options: JSONObject | None = None
    ordinal: int | None = None
    progress: JSONObject | None = None


async def begin_run(
    database: Database, key: SessionKey, *, agent: str, execution: str, spec: JSONObject, now: datetime
) -> Begun:
    """Take the session's next input, or adopt its open run, in one transaction."""
    is_child = "/" in agent  # a sub-agent's session has its path for an agent
    answer = await database.call(
        "begin_run_v4", key.tenant, key.session, agent, execution, escaped_json(spec), now, is_child
    )
    kind = str(answer["kind"])
    paused = bool(answer.get("paused"))
    if kind not in ("new", "adopted"):
        agent_name, ordinal = cast("str | None", answer.get("agent")), cast("int | None", answer.get("ordinal"))
        return Begun(kind, paused, agent=agent_name, ordinal=ordinal)
    packed = cast("str | None", answer.pop("options"))
    options = cast(JSONObject, loads(database.open_body(base64.b64decode(packed)))) if packed else {}
    return Begun(kind, paused, row=answer, options=options)


async def take_steers(database: Database, writer: Writer, node: str, *, position: int, step: int) -> tuple[str, int]:
    """Let the inputs join that steer a run, before the first model call of a step; safe to repeat.

    Args:
        database: the store.
        writer: the run.
        node: the run's thread node.
        position: messages of the node so far.
        step: the step.

    Returns:
        "taken"; "late" if the run has ended; "gone" if the session is deleted. And the messages of the node now.
    """
    answer = await database.call(
        "take_steers_v1", writer.key.tenant, writer.key.session, writer.run, node, position, step
    )
    return str(answer["kind"]), cast(int, answer.get("end") or position)
