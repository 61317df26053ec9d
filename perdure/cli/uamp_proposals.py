"""`perdure uamp proposals` and `perdure uamp answer`: what other agents propose, and the answers of people."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.connection import open_sessions, open_store
from perdure.cli.output import in_short, put, put_json, put_table, say
from perdure.cli.parameters import AsJson, checked_text
from perdure.cli.waits import By, user_name
from perdure.errors import InvalidInput
from perdure.runtime.shown_proposals import proposal_json
from perdure.store.envelopes.exchanges import list_proposals
from perdure.store.envelopes.rows import ExchangeRow

if TYPE_CHECKING:  # as in `perdure.cli.connection`: what only lists does without
    from perdure.runtime.envelopes.proposals import Decision

_MOST = 1000


def proposals(as_json: AsJson = False) -> None:
    """List what other agents propose and nobody has answered, oldest first."""
    rows = asyncio.run(_list())
    if as_json:
        put_json({"proposals": [proposal_json(row) for row in rows]})
    elif not rows:
        say("no proposal waits for an answer")
    else:
        put_table(("proposal", "from", "to", "says", "at"), [_cells(row) for row in rows])


def answer(
    proposal: Annotated[str, typer.Argument(metavar="PROPOSAL", help="The proposal's id.")],
    confirm: Annotated[bool, typer.Option("--confirm", help="Accept it.")] = False,
    deny: Annotated[bool, typer.Option("--deny", help="Do not accept it.")] = False,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="What its sender is told besides.")] = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Answer a proposal, once; its sender gets an envelope that the agent signs."""
    if confirm is deny:
        raise InvalidInput("give one answer: --confirm or --deny")
    why = None if reason is None else checked_text(reason, "--reason")
    who = user_name() if by is None else checked_text(by, "--by")
    row = asyncio.run(_answer(checked_text(proposal, "PROPOSAL"), "confirm" if confirm else "deny", why, who))
    if as_json:
        put_json(proposal_json(row))
    else:
        put(f"answered; {row.sender} is told\n")


def _cells(row: ExchangeRow) -> list[object]:
    shown = proposal_json(row)
    return [row.id, row.sender, row.own, in_short(shown["text"]), shown["opened_at"]]


async def _list() -> list[ExchangeRow]:
    async with open_store() as store:
        return await list_proposals(store.database, store.tenant, after=None, limit=_MOST)


async def _answer(proposal: str, decision: Decision, reason: str | None, by: str) -> ExchangeRow:
    from perdure.runtime.envelopes.own_keys import OwnKeys
    from perdure.runtime.envelopes.parts import utc_now
    from perdure.runtime.envelopes.proposals import answer_proposal
    from perdure.runtime.envelopes.signals import ExchangeSignals
    from perdure.runtime.envelopes.stream_parts import StreamParts

    async with open_sessions() as sessions:
        signals = ExchangeSignals(sessions.database, sessions.tenant)
        signers = OwnKeys(sessions.database, sessions.tenant, clock=utc_now)
        streams = StreamParts(
            sessions.database, sessions.tenant, sessions.stream, signals, signers.signing, clock=utc_now
        )
        try:
            return await answer_proposal(streams, proposal.lower(), decision, reason=reason, by=by)
        finally:
            await signals.close()
