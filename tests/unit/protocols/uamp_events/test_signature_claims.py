"""What a response's signature says; the pure part of check 84."""

from __future__ import annotations

import hashlib

from perdure.protocols.uamp_events.content_items import ImageItem, TextItem, WireMessage
from perdure.protocols.uamp_events.signature_claims import request_hash, response_hash, signature_claims

ASKED = [WireMessage(role="user", content="22°C?")]


def test_84_the_hash_is_of_the_responses_text() -> None:
    output = [TextItem(text="22"), ImageItem(image="AAAA"), TextItem(text="°C")]
    assert response_hash(output) == hashlib.sha256("22°C".encode()).hexdigest()
    assert response_hash(output[:1]) != response_hash(output)


def test_84_the_request_is_hashed_in_canonical_form() -> None:
    canonical = '[{"content":"22°C?","role":"user"}]'
    assert request_hash(ASKED) == hashlib.sha256(canonical.encode()).hexdigest()


def test_84_the_claims_are_for_five_minutes() -> None:
    claims = signature_claims([], request=request_hash(ASKED), issuer="a", audience=None, issued_at=100, token_id="t")
    assert (claims["iss"], claims["iat"], claims["exp"], claims["jti"]) == ("a", 100, 400, "t")
    assert "aud" not in claims
    assert claims["request_hash"] == request_hash(ASKED)
    named = signature_claims([], request=request_hash(ASKED), issuer="a", audience="b", issued_at=100, token_id="t")
    assert named == {**claims, "aud": "b"}
