"""Keys, envelopes and expectations that the tests of UAMP's envelope share."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from perdure.protocols.uamp_envelope.canonical import canonical_json
from perdure.protocols.uamp_envelope.envelope import Envelope, read_envelope
from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.protocols.uamp_envelope.keys import generate_key, signing_key
from perdure.protocols.uamp_envelope.signature import sign_envelope

CLIENT = "did:web:client.example"
WORKER = "did:web:worker.example"
NOW = datetime(2025, 7, 10, 13, 37, 5, tzinfo=UTC)
ID = "urn:uuid:6f1c7a0e-2f5b-4a53-9d3e-0c7b3e0a1d11"
OTHER_ID = "urn:uuid:9b2f3a10-6f7e-4f6b-8a3e-2d1c0b9a8f7e"

# The public test key of RFC 8037, appendix A.
RFC_8037 = {
    "kty": "OKP",
    "crv": "Ed25519",
    "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
    "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
}
ED_KEY = signing_key(f"{CLIENT}#k1", {**RFC_8037})
EC_KEY = generate_key(f"{CLIENT}#k2")
WORKER_KEY = generate_key(f"{WORKER}#k1")
KEYS = (ED_KEY.public(), EC_KEY.public())


def fields(**changes: Any) -> dict[str, Any]:
    """An unsigned ask; a change to None leaves the member out, `from_` stands for `from`."""
    made: dict[str, Any] = {
        "id": ID,
        "ts": "2025-07-10T13:37:05Z",
        "from": CLIENT,
        "to": [WORKER],
        "intent": "ask",
        "body": {"type": "text/plain", "content": "2+2"},
    }
    made |= {name.removesuffix("_"): value for name, value in changes.items()}
    return {name: value for name, value in made.items() if value is not None}


def signed(**changes: Any) -> Envelope:
    """The same, signed by its sender."""
    made = fields(**changes)
    return sign_envelope(made, {CLIENT: ED_KEY, WORKER: WORKER_KEY}[made["from"]])


def reread(value: dict[str, Any]) -> Envelope:
    """An envelope that has gone over a wire."""
    return read_envelope(canonical_json(value))


@contextmanager
def refused(code: str) -> Generator[pytest.ExceptionInfo[UAMPError], None, None]:
    """Expects an error of a code, with all that an error object needs."""
    with pytest.raises(UAMPError) as caught:
        yield caught
    made = caught.value.to_json()
    assert made["code"] == code, caught.value.message
    assert isinstance(made["message"], str)
    assert made["message"]
    assert isinstance(made["retryable"], bool)
