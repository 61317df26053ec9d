"""`perdure uamp keys`: the keys that sign for agents."""

from __future__ import annotations

import json

from tests.acceptance.terminal import Terminal


def test_a_key_of_an_agent_is_followed_retired_and_forgotten(perdure: Terminal) -> None:
    """The one that follows is published and signs later; the one before can go then, in two steps."""
    (first,) = perdure("uamp", "keys", "rotate", "slow", "--json").json["keys"]
    did = first["did"]
    assert did.startswith("did:web:localhost%3A")
    assert did.endswith(":agents:slow")
    shown = perdure("uamp", "keys", "rotate", did)
    new, old = (key for key in perdure("uamp", "keys", "list", "--json").json["keys"] if key["did"] == did)
    assert old["kid"] in shown.out
    assert (old["signs"], new["signs"]) == (True, False)
    assert "private" not in json.dumps([new, old])
    assert "keys retire" in perdure("uamp", "keys", "forget", old["kid"], code=2).err
    assert old["kid"] in perdure("uamp", "keys", "retire", old["kid"]).out
    assert "already" in perdure("uamp", "keys", "retire", old["kid"], code=2).err
    assert "keys rotate" in perdure("uamp", "keys", "retire", new["kid"], code=2).err
    kept = [key for key in perdure("uamp", "keys", "list", "--json").json["keys"] if key["did"] == did]
    assert [(key["kid"], key["signs"]) for key in kept] == [(new["kid"], True), (old["kid"], False)]
    assert old["kid"] in perdure("uamp", "keys", "forget", old["kid"]).out
    assert old["kid"] not in perdure("uamp", "keys", "list").out


def test_a_key_or_agent_that_is_not_there_is_told(perdure: Terminal) -> None:
    assert ":agents:slow" in perdure("uamp", "keys", "rotate", "nobody", code=2).err
    assert "keys list" in perdure("uamp", "keys", "retire", "did:web:localhost#00000000", code=2).err
    assert "does not name a key" in perdure("uamp", "keys", "forget", "nobody", code=2).err
