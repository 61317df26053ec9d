"""Agents that ask agents of another server: by each binding, with and without a person's word, in a short time only.

Where the other server is, is in the environment: `PERDURE_TEST_REMOTE`, JSON with "did", "url", "grpc" and "forger" (the URL of
a `forging_server`) with "forged" (its agent's DID). Their models do as the models of `tests.conformance.uamp_agents`.
"""

from __future__ import annotations

import json
import os
from datetime import timedelta

from perdure import App, agent, remote_agent
from perdure.execution import loop
from tests.conformance.uamp_agents import planned

_PLACE = json.loads(
    os.environ.get("PERDURE_TEST_REMOTE") or '{"did": "did:web:x.example", "url": "https://localhost:1"}'
)
_URL = _PLACE["url"]
_DID = f"{_PLACE['did']}:agents:assistant"
_SAID = "Ask the assistant of the other server."

STEPS = loop(max_iterations=20)
ask_h2 = remote_agent(_URL, did=_DID, name="ask_h2", description=_SAID)
ask_h3 = remote_agent(_URL, did=_DID, name="ask_h3", description=_SAID, binding="h3")
ask_ws = remote_agent(_URL, did=_DID, name="ask_ws", description=_SAID, binding="ws")
ask_grpc = remote_agent(_PLACE.get("grpc", _URL), did=_DID, name="ask_grpc", description=_SAID, binding="grpc")
ask_default = remote_agent(_URL, name="ask_default", description="Ask whoever the other server names.")
ask_soon = remote_agent(_URL, did=_DID, name="ask_soon", description=_SAID, timeout=timedelta(seconds=2))
ask_later = remote_agent(_URL, did=_DID, name="ask_later", description=_SAID, timeout=timedelta(seconds=15))
ask_nobody = remote_agent("https://localhost:1", did=_DID, name="ask_nobody", description=_SAID)
ask_approved = remote_agent(_URL, did=_DID, name="ask_approved", description=_SAID, approval="human")
ask_unknown = remote_agent(_URL, did=f"{_PLACE['did']}:agents:nobody", name="ask_unknown", description=_SAID)
ask_forger = remote_agent(_PLACE.get("forger", _URL), did=_PLACE.get("forged"), name="ask_forger", description=_SAID)
ask_trusting = remote_agent(
    _PLACE.get("forger", _URL), did=_PLACE.get("forged"), name="ask_trusting", description=_SAID, needs_signature=False
)

TOOLS = [
    ask_h2,
    ask_h3,
    ask_ws,
    ask_grpc,
    ask_default,
    ask_soon,
    ask_later,
    ask_nobody,
    ask_approved,
    ask_unknown,
    ask_forger,
    ask_trusting,
]
asker = agent(name="asker", model=planned(), tools=TOOLS, execution=STEPS)
chief = agent(name="chief", model=planned(), tools=[asker], execution=STEPS)
app = App(agents=[asker, chief])
