"""Proposals as the API and the commands show them."""

from __future__ import annotations

from perdure.runtime.shown import iso
from perdure.store.envelopes.rows import ExchangeRow
from perdure.upp.json_value import JSONObject


def proposal_json(row: ExchangeRow) -> JSONObject:
    """A proposal: from whom, for which agent of ours, and what it says."""
    said = row.proposal or {}
    return {
        "proposal": row.id,
        "sender": row.sender,
        "to": row.own,
        "envelope": row.envelope,
        "type": said.get("type", ""),
        "text": said.get("text", ""),
        "state": row.state.value,
        "opened_at": iso(row.opened_at),
        "ended_at": iso(row.ended_at),
    }
