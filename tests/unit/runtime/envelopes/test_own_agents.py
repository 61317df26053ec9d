"""The names of our own agents."""

from __future__ import annotations

import pytest

from perdure.errors import InvalidInput
from perdure.runtime.envelopes.own_agents import OwnAgents
from perdure.store.database import Database

NOWHERE = Database("postgresql://nobody@127.0.0.1:1/none")


@pytest.mark.parametrize(
    ("host", "did", "url"),
    [
        ("agents.example", "did:web:agents.example", "https://agents.example"),
        ("agents.example:443", "did:web:agents.example", "https://agents.example"),
        ("localhost:8443", "did:web:localhost%3A8443", "https://localhost:8443"),
    ],
)
def test_a_host_has_a_did_and_each_agent_one_below_it(host: str, did: str, url: str) -> None:
    own = OwnAgents(NOWHERE, "default", host)
    assert (own.host_did, own.base_url) == (did, url)
    assert own.did_of("coder") == f"{did}:agents:coder"
    assert own.did_of("my coder") == f"{did}:agents:my%20coder"


@pytest.mark.parametrize("host", ["127.0.0.1:8443", "agents.example:0", "agents.example:99999", "a..b", "[::1]"])
def test_a_host_that_no_did_can_name_is_refused(host: str) -> None:
    with pytest.raises(InvalidInput, match="did:web"):
        OwnAgents(NOWHERE, "default", host)


async def test_what_is_of_another_host_is_not_looked_up() -> None:
    """Also of one whose name begins alike; nothing is read for it."""
    own = OwnAgents(NOWHERE, "default", "agents.example")
    for did in ("did:web:agents.example.evil", "did:web:agents.example%3A8443", "did:web:other.example", "urn:x"):
        assert not own.is_of_this_host(did)
        assert await own.agent_of(did) is None
    assert own.is_of_this_host("did:web:agents.example:agents:coder")
