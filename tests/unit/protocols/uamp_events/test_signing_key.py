"""Keys that sign responses: what they sign verifies by what is published, and only RSA of a fair length is taken."""

from __future__ import annotations

import json
from typing import cast

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from joserfc import jwt
from joserfc.errors import BadSignatureError
from joserfc.jwk import RSAKey

from perdure.errors import InvalidInput
from perdure.protocols.uamp_events.signing_key import SigningKey, key_of_der, key_set, keys_of_pem, new_key
from perdure.upp.json_value import JSONObject

_PEM, _PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8


@pytest.fixture(scope="module")
def key() -> SigningKey:
    return new_key()


def pem_of(private: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, password: bytes = b"") -> bytes:
    sealed = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return private.private_bytes(_PEM, _PKCS8, sealed)


def test_84_what_is_signed_verifies_by_the_published_key(key: SigningKey) -> None:
    """And the same claims give the same token, so that a response that is told twice has one signature."""
    claims: JSONObject = {"iss": "greeter", "response_hash": "00"}
    token = key.sign(claims)
    assert token == key.sign(claims)
    (published,) = cast("list[JSONObject]", key_set([key])["keys"])
    assert set(published) == {"kty", "n", "e", "kid", "alg", "use"}
    assert (published["kty"], published["use"], published["alg"]) == ("RSA", "sig", "RS256")
    found = jwt.decode(token, RSAKey.import_key(cast("dict[str, str | list[str]]", published)), algorithms=["RS256"])
    assert found.claims == claims
    assert found.header["kid"] == key.kid == published["kid"]
    head, body, signature = token.split(".")
    with pytest.raises(BadSignatureError):
        jwt.decode(f"{head}.{body[:-2]}AA.{signature}", RSAKey.import_key(json.loads(json.dumps(published))))


def test_a_stored_key_comes_back(key: SigningKey) -> None:
    assert key_of_der(key.to_der()) == key
    assert repr(key) == f"SigningKey(kid={key.kid!r})"


def test_the_keys_of_a_file_keep_their_order(key: SigningKey) -> None:
    other = new_key()
    document = b"# the newest\n" + other.key.as_pem(private=True) + b"\n" + key.key.as_pem(private=True)
    assert [found.kid for found in keys_of_pem(document, "a file")] == [other.kid, key.kid]


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (b"", "no private key"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", "cannot be read"),
        (pem_of(ec.generate_private_key(ec.SECP256R1())), "cannot be read"),
        (pem_of(rsa.generate_private_key(65537, 2048), b"secret"), "cannot be read"),
        (pem_of(rsa.generate_private_key(65537, 1024)), "2048 or more"),
    ],
    ids=["empty", "damaged", "elliptic", "locked", "short"],
)
def test_other_keys_are_refused_by_the_name_of_their_file(document: bytes, why: str) -> None:
    with pytest.raises(InvalidInput, match=f"keys.pem.*{why}"):
        keys_of_pem(document, "keys.pem")
