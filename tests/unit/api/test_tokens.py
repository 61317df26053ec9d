"""Which tokens are accepted, and that every known way to forge one is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from perdure.api.jwks import KeySource, parse_keys
from perdure.api.principal import Scope
from perdure.api.problems import Refused
from perdure.api.tokens import TokenVerifier, read_scopes, token_verifier
from perdure.config import load_settings
from perdure.errors import InvalidInput
from tests.unit.api import issuer

STRANGER = RSAKey.generate_key(2048, {"kid": "stranger"})


def verifier(*keys: Any) -> TokenVerifier:
    async def read() -> bytes:
        return issuer.key_set(*(keys or (issuer.RSA, issuer.EC, issuer.ED)))

    return TokenVerifier(issuer.NAME, issuer.AUDIENCE, KeySource(read), clock=lambda: float(issuer.NOW))


async def refusal(token: str, *keys: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        await verifier(*keys).verify(token)
    assert caught.value.status == 401
    assert 'error="invalid_token"' in caught.value.headers["WWW-Authenticate"]
    assert token not in caught.value.detail
    return caught.value


@pytest.mark.parametrize("algorithm", issuer.BY_ALGORITHM)
async def test_a_token_of_the_issuer_says_who_calls(algorithm: str) -> None:
    principal = await verifier().verify(issuer.sign(issuer.BY_ALGORITHM[algorithm], algorithm))
    assert (principal.name, principal.tenant) == ("ada", "acme")
    assert principal.scopes == {Scope.READ, Scope.RUN}


async def test_a_set_of_one_key_needs_no_key_id() -> None:
    token = issuer.sign(issuer.RSA, "RS256", header={"kid": None})
    assert (await verifier(issuer.RSA).verify(token)).name == "ada"
    await refusal(token)


PUBLIC_KEY = issuer.RSA.as_pem(private=False)
EMBEDDED = {"jwk": STRANGER.as_dict(private=False)}
FORGED = {
    "none": issuer.unsigned(),
    "none with a key id": issuer.unsigned(kid="rsa"),
    "None": issuer.unsigned(alg="None", kid="rsa"),
    "hs256 with the public key": issuer.sign_with_secret(PUBLIC_KEY, "HS256", kid="rsa"),
    "hs512 with the public key": issuer.sign_with_secret(PUBLIC_KEY, "HS512", kid="rsa"),
    "a stranger's key under a known id": issuer.sign(STRANGER, "RS256", header={"kid": "rsa"}),
    "a stranger's key under its own id": issuer.sign(STRANGER, "RS256"),
    "an embedded key": issuer.sign(STRANGER, "RS256", header=EMBEDDED),
    "an embedded key under a known id": issuer.sign(STRANGER, "RS256", header={**EMBEDDED, "kid": "rsa"}),
    "a key's address": issuer.sign(STRANGER, "RS256", header={"jku": "https://evil.example/jwks", "kid": "rsa"}),
    "a longer hash": issuer.sign(issuer.RSA, "RS512"),
    "another padding": issuer.sign(issuer.RSA, "PS256"),
    "an unknown critical header": issuer.sign(issuer.RSA, "RS256", header={"crit": ["x"], "x": 1}),
    "expired": issuer.sign(issuer.RSA, "RS256", exp=issuer.NOW - 61),
    "never expiring": issuer.sign(issuer.RSA, "RS256", exp=None),
    "expiring at no number": issuer.sign(issuer.RSA, "RS256", exp=float("nan")),
    "not yet": issuer.sign(issuer.RSA, "RS256", nbf=issuer.NOW + 61),
    "from the future": issuer.sign(issuer.RSA, "RS256", iat=issuer.NOW + 61),
    "another audience": issuer.sign(issuer.RSA, "RS256", aud="other"),
    "other audiences": issuer.sign(issuer.RSA, "RS256", aud=["other", "perdure2"]),
    "no audience": issuer.sign(issuer.RSA, "RS256", aud=None),
    "another issuer": issuer.sign(issuer.RSA, "RS256", iss="https://issuer.example/"),
    "no issuer": issuer.sign(issuer.RSA, "RS256", iss=None),
    "a list of issuers": issuer.sign(issuer.RSA, "RS256", iss=[issuer.NAME]),
    "no subject": issuer.sign(issuer.RSA, "RS256", sub=None),
    "no tenant": issuer.sign(issuer.RSA, "RS256", tenant=None),
    "a path as tenant": issuer.sign(issuer.RSA, "RS256", tenant="a/b"),
    "a list of tenants": issuer.sign(issuer.RSA, "RS256", tenant=["acme"]),
    "no claims": issuer.sign_bytes(b"[]"),
    "no json": issuer.sign_bytes(b"{"),
    "deep claims": issuer.sign_bytes(b"[" * 100_000),
    "two parts": "a.b",
    "five parts": "a.b.c.d.e",
    "nothing": "..",
    "a cut signature": issuer.sign(issuer.RSA, "RS256")[:-8],
    "a huge header": issuer.sign(issuer.RSA, "RS256", header={"x": "x" * 5000}),
}


@pytest.mark.parametrize("name", FORGED)
async def test_a_forged_or_misused_token_is_refused(name: str) -> None:
    await refusal(FORGED[name])


async def test_a_token_that_has_expired_says_so() -> None:
    assert "expired" in (await refusal(FORGED["expired"])).detail


async def test_clocks_may_differ_by_a_minute() -> None:
    token = issuer.sign(issuer.RSA, "RS256", exp=issuer.NOW - 59, iat=issuer.NOW + 59, nbf=issuer.NOW + 59)
    assert (await verifier().verify(token)).name == "ada"


async def test_one_of_several_audiences_is_enough() -> None:
    assert (await verifier().verify(issuer.sign(issuer.RSA, "RS256", aud=["other", "perdure"]))).name == "ada"


@pytest.mark.parametrize(
    ("claim", "scopes"),
    [
        ("read approve openid", {Scope.READ, Scope.APPROVE}),
        (["admin", 1, None], {Scope.ADMIN}),
        ("readrun", set[Scope]()),
        (None, set[Scope]()),
        ({"read": True}, set[Scope]()),
    ],
    ids=["text", "list", "one word", "missing", "an object"],
)
def test_scopes_are_read_from_a_text_or_a_list(claim: object, scopes: set[Scope]) -> None:
    assert read_scopes(claim) == scopes


def test_only_keys_that_can_sign_here_are_taken_from_a_set() -> None:
    """Above all no symmetric key: it would let everyone who can read the set sign."""
    with pytest.warns(SecurityWarning):
        short = RSAKey.generate_key(1024, {"kid": "short"})
    others = (
        short,
        OctKey.generate_key(256, {"kid": "oct"}),
        ECKey.generate_key("P-384", {"kid": "p384"}),
        OKPKey.generate_key("X25519", {"kid": "x"}),
        RSAKey.generate_key(2048, {"kid": "enc", "use": "enc"}),
        RSAKey.generate_key(2048, {"kid": "ps", "alg": "PS256"}),
    )
    document = b'{"keys": ["x", {}, {"kty": "RSA", "kid": "broken"}, ' + issuer.key_set(*others, issuer.EC)[10:]
    assert set(parse_keys(document)) == {"ec"}
    with pytest.raises(InvalidInput, match="no key for"):
        parse_keys(issuer.key_set(others[0]))


@pytest.mark.parametrize("document", [b"", b"[]", b"{}", b'{"keys": 1}', b"[" * 100_000], ids=str)
def test_what_is_no_key_set_is_refused(document: bytes) -> None:
    with pytest.raises(InvalidInput):
        parse_keys(document)


def test_settings_that_ask_for_tokens_must_say_enough(tmp_path: Path) -> None:
    enough = {"jwt_issuer": "i", "jwt_audience": "a", "jwks_file": tmp_path / "keys"}
    assert token_verifier(load_settings()) is None
    assert token_verifier(load_settings(**enough)) is not None
    for name in enough:
        with pytest.raises(InvalidInput, match="PERDURE_JWT_ISSUER"):
            token_verifier(load_settings(**{**enough, name: None}))
    with pytest.raises(InvalidInput, match="one of"):
        token_verifier(load_settings(**enough, jwks_url="https://a.example"))
    with pytest.raises(InvalidInput, match="https"):
        token_verifier(load_settings(jwt_issuer="i", jwt_audience="a", jwks_url="http://a.example"))
