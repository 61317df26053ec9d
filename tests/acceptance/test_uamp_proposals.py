"""`perdure uamp proposals` and `answer`: what another agent proposes is listed until somebody has answered it."""

from __future__ import annotations

import asyncio
import uuid

from perdure.runtime.addresses import find_addresses
from perdure.store.database import Database
from tests.acceptance.terminal import Terminal
from tests.integration.kept_proposals import keep_proposal


async def propose(terminal: Terminal, text: str) -> str:
    """Have another agent propose something; the proposal's id."""
    database = Database(find_addresses(folder=terminal.folder).database_url, pool_size=1)
    try:
        return await keep_proposal(database, "default", text)
    finally:
        await database.close()


def test_a_proposal_is_listed_and_answered_once(perdure: Terminal) -> None:
    """By --confirm or --deny, with a reason; then it is listed no more, and cannot be answered again."""
    first, second = (asyncio.run(propose(perdure, f"shall we {word}?")) for word in ("merge", "wait"))
    listed = perdure("uamp", "proposals", "--json").json["proposals"]
    assert [(item["proposal"], item["text"]) for item in listed] == [
        (first, "shall we merge?"),
        (second, "shall we wait?"),
    ]
    assert first in perdure("uamp", "proposals").out
    assert "did:web:ann.example" in perdure("uamp", "answer", first, "--confirm", "--reason", "as planned").out
    denied = perdure("uamp", "answer", second, "--deny", "--by", "eve", "--json").json
    assert (denied["proposal"], denied["state"]) == (second, "completed")
    assert "no proposal waits" in perdure("uamp", "proposals").err
    perdure("uamp", "answer", first, "--deny", code=2).check_error("answered")


def test_what_cannot_be_an_answer_is_refused(perdure: Terminal) -> None:
    nobodys = str(uuid.uuid4())
    perdure("uamp", "answer", nobodys, "--confirm", code=2).check_error(nobodys, "uamp proposals")
    perdure("uamp", "answer", nobodys, code=2).check_error("--confirm", "--deny")
    perdure("uamp", "answer", nobodys, "--confirm", "--deny", code=2).check_error("--confirm", "--deny")
    perdure("uamp", "answer", nobodys, "--confirm", "--reason", " ", code=2).check_error("--reason")
