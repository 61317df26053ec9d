"""`perdure uamp`: asking agents of a server from the command line."""

from __future__ import annotations

import json
import re
import signal
import stat

import pytest

from tests.acceptance.conftest import APP
from tests.acceptance.terminal import Terminal

TEXT = "The sum of one and two is three."
ME = "did:web:me.example"


def test_an_agent_is_asked_in_two_minutes(elsewhere: Terminal) -> None:
    """The lines of docs/uamp-envelope.md, in one folder: a key, a server with TLS, and questions by three bindings."""
    made = elsewhere("uamp", "identity", ME, "--add-to", "known.json")
    assert made.out.startswith(f"{ME}#")
    assert list(json.loads((elsewhere.folder / "known.json").read_text())) == [ME]
    terminal = elsewhere.with_environment(PERDURE_UAMP_KEYS="known.json")
    (terminal.folder / "agents.py").write_text(APP, encoding="utf-8")
    server = terminal.start("dev", "--tls", "agents:app")
    server.until(lambda: "API ready" in server.err and "worker ready" in server.err)
    found = re.search(r"API ready: https://\S+:(\d+)", server.err)
    assert found, server.err
    url = f"https://localhost:{found[1]}"
    host = f"did:web:localhost%3A{found[1]}"

    asked = terminal("uamp", "ask", f"{url}/agents/calc", "1+2?")
    assert (asked.out, asked.err) == (f"{TEXT}\n", "")
    told = terminal("uamp", "ask", url, "1+2?", "--to", f"{host}:agents:calc", "--binding", "ws", "--json").json
    assert (told["text"], told["signed"], told["from"]) == (TEXT, True, f"{host}:agents:calc")
    key = terminal("keys", "create", ME, "--scope", "run").out.split()[-1]
    by_token = terminal.with_environment(PERDURE_UAMP_BEARER=key)
    assert by_token("uamp", "ask", f"{url}/agents/calc", "1+2?", "--binding", "h3").out == f"{TEXT}\n"

    sent = terminal("uamp", "send", f"{url}/agents/slow", "inform", "I am away", "--json").json
    assert sent["id"].startswith("urn:uuid:")
    assert sent["stream_id"] is None
    proposing = terminal.start("uamp", "send", f"{url}/agents/slow", "propose", "Ten for it?", "--wait", "--json")
    proposing.until(lambda: bool(terminal("uamp", "proposals", "--json").json["proposals"]))
    (waiting,) = terminal("uamp", "proposals", "--json").json["proposals"]
    terminal("uamp", "answer", waiting["proposal"], "--confirm", "--reason", "fine")
    assert proposing.wait() == 0, proposing.err
    decided = proposing.json
    assert (decided["id"], decided["decision"], decided["reason"]) == (waiting["envelope"], "confirm", "fine")

    manifest = terminal("uamp", "manifest", f"{url}/agents/calc", "--json").json
    assert manifest["did"] == f"{host}:agents:calc"
    assert "ask" in manifest["manifest"]["intents"]
    hub = terminal("uamp", "hub", url, "--json").json
    assert f"{host}:agents:calc" in [item["did"] for item in hub["listed"]]
    assert {item["fault"] for item in hub["listed"]} == {None}
    assert "verified" in terminal("uamp", "hub", url).out

    refused = terminal("uamp", "ask", url, "x", "--to", "did:web:other.example", code=2)
    refused.check_error("the other side's server says 4.03", "no agent of this server")
    server.send(signal.SIGINT)
    assert server.wait() == 0


def test_an_identity_is_kept_to_oneself(elsewhere: Terminal) -> None:
    """Its file can be read by its owner alone, is never written over, and nobody asks with one that others can read."""
    elsewhere("uamp", "ask", "https://localhost:1", "hi", code=2).check_error("perdure uamp identity")
    made = elsewhere("uamp", "identity", ME, "--ed25519", "--json").json
    path = elsewhere.folder / ".perdure" / "uamp-identity.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert made["jwks"]["keys"][0]["alg"] == "EdDSA"
    assert "d" not in made["jwks"]["keys"][0]
    elsewhere("uamp", "identity", ME, code=2).check_error("never written over")
    assert elsewhere("uamp", "identity").out == f"{made['kid']}\n"
    path.chmod(0o644)
    elsewhere("uamp", "ask", "https://localhost:1", "hi", code=2).check_error("others can read")


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (("ask", "http://localhost:1", "hi"), ("https://",), 2),
        (("ask", "https://localhost:1/somewhere", "hi"), ("/somewhere", "--to"), 2),
        (("ask", "https://localhost:1", "hi", "--binding", "grpc"), ("--to",), 2),
        (("ask", "https://localhost:1", " "), ("MESSAGE is empty",), 2),
        (("ask", "https://localhost:1", "hi", "--patience", "0"), ("localhost:1",), 3),
        (("send", "https://localhost:1", "beg", "hi"), ("'beg'", "inform"), 2),
        (("send", "https://localhost:1", "ask", "hi", "--wait"), ("--wait",), 2),
        (("manifest", "https://localhost:1"), ("localhost:1",), 3),
        (("hub", "nowhere"), ("https://",), 2),
    ],
)
def test_what_cannot_be_done_is_said(
    elsewhere: Terminal, arguments: tuple[str, ...], words: tuple[str, ...], code: int
) -> None:
    elsewhere("uamp", "identity", ME)
    elsewhere("uamp", *arguments, code=code).check_error(*words)
