"""Shapes of requests and answers about proposals, for the OpenAPI document. `perdure.runtime.shown_proposals` makes what they show."""

from __future__ import annotations

from enum import StrEnum

from pydantic import AwareDatetime, ConfigDict, Field

from perdure.api.json_types import Text
from perdure.api.models import Body
from perdure.api.shapes import Shape


class ProposalDecision(StrEnum):
    """What can be answered."""

    CONFIRM = "confirm"
    DENY = "deny"


class AnswerProposal(Body):
    """The answer to a proposal. Its sender gets it in an envelope that the agent signs."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"decision": "confirm"}, {"decision": "deny", "reason": "Not this week."}]}
    )

    decision: ProposalDecision = Field(description="whether it is accepted")
    reason: Text | None = Field(default=None, description="what the sender is told besides, at most 4000 characters")


class Proposal(Shape):
    """A proposal of another agent."""

    proposal: str
    sender: str
    to: str
    envelope: str
    type: str
    text: str
    state: str
    opened_at: AwareDatetime
    ended_at: AwareDatetime | None


class Proposals(Shape):
    """A page of proposals that wait for an answer, oldest first."""

    proposals: list[Proposal]
    next: str | None
