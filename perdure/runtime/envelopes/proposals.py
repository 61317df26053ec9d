"""Proposals of other agents: listed until they are answered, once, by a person or by the agent itself.

The answer is an envelope of ours, signed, `confirm` or `deny`; the terminal delta of the proposal's stream carries it.
"""

from __future__ import annotations

import logging
from typing import Literal
from uuid import UUID

from perdure.errors import InvalidInput, UnknownWait, WaitAnswered
from perdure.protocols.uamp_envelope.body import encode_body
from perdure.protocols.uamp_envelope.delta import DeltaType
from perdure.protocols.uamp_envelope.envelope import Envelope, build_envelope
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.lifecycle import State, Step
from perdure.protocols.uamp_envelope.signature import sign_envelope
from perdure.runtime.envelopes.ending import end_stream
from perdure.runtime.envelopes.pieces import plain_text
from perdure.runtime.envelopes.stream_parts import StreamParts
from perdure.store.completed_turns import completed_turn
from perdure.store.envelopes.exchanges import find_exchange
from perdure.store.envelopes.rows import ExchangeRow
from perdure.store.runs import RunRow
from perdure.testing.crash import crash_point
from perdure.uap.ids import derive_id
from perdure.uap.options import RunOptions
from perdure.upp.json_value import JSONObject, dumps, loads

logger = logging.getLogger(__name__)

Decision = Literal["confirm", "deny"]

MAX_REASON_CHARS = 4000

DECIDING = RunOptions(
    instructions="Another agent proposes what its message says. Decide whether you accept it, and say why in one sentence.",
    response_format={
        "type": "json_schema",
        "name": "decision",
        "schema": {
            "type": "object",
            "properties": {"accept": {"type": "boolean"}, "reason": {"type": "string"}},
            "required": ["accept", "reason"],
            "additionalProperties": False,
        },
    },
)
"""The options of a run that decides about a proposal."""


async def answer_proposal(
    streams: StreamParts, exchange_id: str, decision: Decision, *, reason: str | None = None, by: str
) -> ExchangeRow:
    """Answer a proposal, once; its sender is told by a signed envelope.

    Args:
        streams: of the tenant whose proposal it is.
        exchange_id: which.
        decision: whether it is accepted.
        reason: what its sender is told besides.
        by: who answers, for our own log.

    Returns:
        The proposal as it stands then.

    Raises:
        UnknownWait: there is no such proposal.
        WaitAnswered: it was answered, or withdrawn.
        InvalidInput: the reason is too long.
    """
    if reason is not None and len(reason) > MAX_REASON_CHARS:
        raise InvalidInput(f"the reason has {len(reason)} characters; at most {MAX_REASON_CHARS} are told")
    row = await find_exchange(streams.database, streams.tenant, exchange_id)
    if row is None or row.intent is not Intent.PROPOSE:
        raise UnknownWait(f"no proposal {exchange_id[:40]!r}; `perdure uamp proposals` lists the open ones")
    if not row.state.is_terminal:
        answer = await _signed(streams, row, decision, reason)
        payload: JSONObject = {"intent": decision, "envelope": answer.json}
        crash_point("envelope.answering")
        is_told = await end_stream(streams, row.id, DeltaType.DONE, payload, step=Step(decision))
        crash_point("envelope.answered")
        row = await find_exchange(streams.database, streams.tenant, exchange_id) or row
        if is_told and row.state is State.COMPLETED:  # else it was withdrawn meanwhile, and its stream says so now
            logger.info("proposal.answered exchange=%s decision=%s by=%s", row.id, decision, by)
            return row
    raise WaitAnswered(f"the proposal {row.id} was answered or withdrawn before")


async def decide(streams: StreamParts, row: ExchangeRow, run: RunRow) -> None:
    """Answer a proposal as the run that was asked about it has decided; harmless if it has been answered."""
    if run.status == "cancelled":
        error = UAMPError(Code.INTERNAL, "nobody decided about the proposal")
        await end_stream(streams, row.id, DeltaType.ERROR, error.to_json(), step=Step.ERROR)
        return
    decided = await _decision(streams, run)
    if decided is None:
        error = UAMPError(Code.INTERNAL, "the agent could not decide about the proposal")
        await end_stream(streams, row.id, DeltaType.ERROR, error.to_json(), step=Step.ERROR)
        return
    try:
        await answer_proposal(streams, row.id, decided[0], reason=decided[1][:MAX_REASON_CHARS], by="agent")
    except WaitAnswered:
        logger.info("proposal.late_decision exchange=%s", row.id)


async def _decision(streams: StreamParts, run: RunRow) -> tuple[Decision, str] | None:
    """What a run has decided, and why; None if it has failed or said something else."""
    if run.status != "completed":
        return None
    turn = await completed_turn(streams.database, run)
    try:
        said = loads(turn.response.text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None
    if not isinstance(said, dict) or not isinstance(said.get("accept"), bool):
        return None
    reason = said.get("reason")
    return "confirm" if said["accept"] else "deny", reason if isinstance(reason, str) else ""


async def _signed(streams: StreamParts, row: ExchangeRow, decision: Decision, reason: str | None) -> Envelope:
    said: JSONObject = (
        {"decision": decision} if reason is None else {"decision": decision, "reason": plain_text(reason)}
    )
    unsigned = build_envelope(
        id=UUID(derive_id("uamp answer", row.id, decision)),
        now=streams.clock(),
        sender=row.own,
        to=[row.sender],
        intent=Intent(decision),
        body=encode_body("application/json", dumps(said).decode("utf-8")),
        reply_to=row.envelope,
        stream_id=row.stream_id,
    )
    return sign_envelope(unsigned, await streams.signing(row.own))
