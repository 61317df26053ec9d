"""What other agents propose, and the answers of people."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import APIRouter, Path, Request

from perdure.api import proposal_shapes as shapes
from perdure.api.access import Approver, Reader
from perdure.api.answers import Answer, page
from perdure.api.cursors import read_cursor, to_cursor
from perdure.api.parameters import Cursor, Limit
from perdure.api.problems import Refused
from perdure.errors import UnknownWait
from perdure.runtime.envelopes.desk import EnvelopeDesk
from perdure.runtime.envelopes.proposals import answer_proposal
from perdure.runtime.shown_proposals import proposal_json
from perdure.store.envelopes.exchanges import list_proposals

router = APIRouter(prefix="/api", tags=["proposals"])

ProposalId = Annotated[
    str, Path(description="The proposal's id.", examples=["7f0c1f3a-3c5e-4c0e-9b57-0f6f0f0c2f11"], max_length=200)
]


@router.get("/proposals", operation_id="listProposals", response_model=shapes.Proposals)
async def list_page(caller: Reader, after: Cursor = None, limit: Limit = 100) -> Answer:
    """List what other agents propose and nobody has answered, oldest first."""
    place = None if after is None else str(read_cursor(after, str)[0])
    rows = await list_proposals(caller.database, caller.tenant, after=place, limit=limit)
    following = to_cursor(rows[-1].id) if len(rows) == limit else None
    return page("proposals", [proposal_json(row) for row in rows], following)


@router.post("/proposals/{proposal}", operation_id="answerProposal", response_model=shapes.Proposal)
async def answer(caller: Approver, proposal: ProposalId, body: shapes.AnswerProposal, request: Request) -> Answer:
    """Answer a proposal, once; its sender is told in an envelope that the agent signs."""
    desk = cast(EnvelopeDesk, request.app.state.envelopes)
    ident = proposal.lower()
    try:
        if caller.tenant != desk.parts.tenant:
            raise UnknownWait(f"no proposal {ident[:40]!r}; `perdure uamp proposals` lists the open ones")
        row = await answer_proposal(
            desk.parts.streams, ident, body.decision.value, reason=body.reason, by=caller.principal.name
        )
    except UnknownWait as error:
        raise Refused(404, "unknown_proposal", str(error)) from error
    return Answer(proposal_json(row))
