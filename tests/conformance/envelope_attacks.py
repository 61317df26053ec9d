"""Envelopes that nobody may get away with, each with the code that refuses it: tampering, confusion, injection, bombs."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import zstandard
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from jwcrypto import jwk

from tests.conformance.envelope_peer import Envelope, Peer, new_id, new_key, payload_of, utc_text, wire

Attack = Callable[[Peer], Envelope | bytes]

ATTACKS: dict[str, tuple[str, Attack]] = {}
"""By name the code, and what makes the envelope."""

_MEBIBYTE = 1024 * 1024


def attack(code: str, name: str) -> Callable[[Attack], Attack]:
    """Lists an attack."""

    def listed(made: Attack) -> Attack:
        assert name not in ATTACKS
        ATTACKS[name] = (code, made)
        return made

    return listed


def part(data: bytes) -> str:
    """Unpadded base64url."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unpart(text: str) -> bytes:
    """And back."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def parts_of(envelope: Envelope) -> tuple[dict[str, Any], bytes]:
    """The header and the signature of an envelope."""
    first, _, last = envelope["sig"].split(".")
    return json.loads(unpart(first)), unpart(last)


def with_header(envelope: Envelope, **changes: Any) -> Envelope:
    """The same signature under another header, which it is not over."""
    header, signature = parts_of(envelope)
    return {**envelope, "sig": f"{part(json.dumps({**header, **changes}).encode())}..{part(signature)}"}


def bomb(packing: str, packed: bytes) -> Attack:
    """An envelope whose body is small, and large once it is unpacked."""
    body = {"type": "text/plain", "content": part(packed), "encoding": "base64url", "compression": packing}
    return lambda peer: peer.signed(body=body)


def _tampered(name: str, change: dict[str, Any]) -> None:
    attack("4.01", f"tampered: {name}")(lambda peer: {**peer.signed(ext={"a": {"b": 1}}, delta_window=8), **change})


def _signed_with(name: str, code: str, **header: Any) -> None:
    attack(code, f"header: {name}")(lambda peer: peer.sign(peer.unsigned(), **header))


_tampered("the body's content", {"body": {"type": "text/plain", "content": "other"}})
_tampered("the body's type", {"body": {"type": "text/markdown", "content": "hello"}})
_tampered("a member of the body more", {"body": {"type": "text/plain", "content": "hello", "x": 1}})
_tampered("a nested member of ext", {"ext": {"a": {"b": 2}}})
_tampered("a member of ext more", {"ext": {"a": {"b": 1}, "sig": "x"}})
_tampered("the intent", {"intent": "subscribe"})
_tampered("the window", {"delta_window": 9})
_tampered("a stream", {"stream_id": "mine"})
_tampered(
    "a context", {"context": [{"id": "urn:uuid:6f1c7a0e-2f5b-4a53-9d3e-0c7b3e0a1d11", "hash": "sha256:" + "0" * 64}]}
)
_tampered("a capability", {"cap_token": "a.b.c"})


@attack("4.01", "tampered: the id")
def _(peer: Peer) -> Envelope:
    return {**peer.signed(), "id": new_id()}


@attack("4.01", "tampered: a recipient more")
def _(peer: Peer) -> Envelope:
    return {**peer.signed(), "to": [peer.to, "did:web:another.example"]}


@attack("4.01", "tampered: the time")
def _(peer: Peer) -> Envelope:
    return {**peer.signed(), "ts": utc_text(peer.now() + timedelta(seconds=1))}


@attack("4.03", "tampered: the sender")
def _(peer: Peer) -> Envelope:
    return {**peer.signed(), "from": "did:web:bob.example"}


@attack("4.01", "confusion: no signature at all, alg none")
def _(peer: Peer) -> Envelope:
    header = {"alg": "none", "kid": peer.kid}
    return {**peer.unsigned(), "sig": f"{part(json.dumps(header).encode())}.."}


@attack("4.01", "confusion: alg none with a signature")
def _(peer: Peer) -> Envelope:
    return with_header(peer.signed(), alg="none")


@attack("4.01", "confusion: HS256 with the public key as its secret")
def _(peer: Peer) -> Envelope:
    sent = peer.unsigned()
    secret = jwk.JWK(kty="oct", k=part(json.dumps(peer.public, sort_keys=True).encode()))
    return {**sent, "sig": peer.signature(payload_of(sent), key=secret, alg="HS256")}


@attack("4.01", "confusion: HS256 with the public key's PEM as its secret")
def _(peer: Peer) -> Envelope:
    sent = peer.unsigned()
    secret = jwk.JWK(kty="oct", k=part(peer.key.export_to_pem()))
    return {**sent, "sig": peer.signature(payload_of(sent), key=secret, alg="HS256")}


@attack("4.01", "confusion: RS256 by a key of its own")
def _(peer: Peer) -> Envelope:
    sent = peer.unsigned()
    return {**sent, "sig": peer.signature(payload_of(sent), key=new_key("RS256"), alg="RS256")}


@attack("4.01", "confusion: ES384 by a key of its own")
def _(peer: Peer) -> Envelope:
    sent = peer.unsigned()
    return {**sent, "sig": peer.signature(payload_of(sent), key=new_key("ES384"), alg="ES384")}


@attack("4.01", "confusion: the other algorithm's name over this signature")
def _(peer: Peer) -> Envelope:
    return with_header(peer.signed(), alg="EdDSA" if peer.alg == "ES256" else "ES256")


@attack("4.01", "confusion: the other algorithm by a key of its own, under our kid")
def _(peer: Peer) -> Envelope:
    sent, other = peer.unsigned(), "EdDSA" if peer.alg == "ES256" else "ES256"
    return {**sent, "sig": peer.signature(payload_of(sent), key=new_key(other), alg=other)}


for _name in ("es256", "ES256K", "Ed448", "Ed25519", "PS256", "ES512", "", "A128KW", 7, None, ["ES256"]):
    attack("4.01", f"confusion: alg {_name!r}")(lambda peer, alg=_name: with_header(peer.signed(), alg=alg))


@attack("4.01", "forged: another key under our kid")
def _(peer: Peer) -> Envelope:
    sent = peer.unsigned()
    return {**sent, "sig": peer.signature(payload_of(sent), key=new_key(peer.alg))}


@attack("4.01", "forged: the signature of another envelope")
def _(peer: Peer) -> Envelope:
    return {**peer.signed(), "sig": peer.signed()["sig"]}


@attack("4.01", "forged: zeros as R and S")
def _(peer: Peer) -> Envelope:
    sent = peer.signed()
    return {**sent, "sig": f"{sent['sig'].split('.')[0]}..{part(bytes(64))}"}


@attack("4.01", "form: R and S as DER")
def _(peer: Peer) -> Envelope:
    sent = peer.signed()
    _, signature = parts_of(sent)
    der = encode_dss_signature(int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big"))
    return {**sent, "sig": f"{sent['sig'].split('.')[0]}..{part(der)}"}


_FORMS: dict[str, Callable[[str], str]] = {
    "cut off": lambda sig: sig[:-2],
    "one character more": lambda sig: sig + "A",
    "padded": lambda sig: sig + "==",
    "empty": lambda sig: "",
    "two parts": lambda sig: sig.replace("..", "."),
    "four parts": lambda sig: sig + ".x",
    "a space": lambda sig: sig + " ",
    "a line feed": lambda sig: sig + "\n",
    "the standard alphabet": lambda sig: sig[:-4] + "+/+/",
    "no header": lambda sig: sig[sig.index(".") :],
    "a header that is no JSON": lambda sig: "e30x" + sig[sig.index(".") :],
    "a header that is a list": lambda sig: part(b"[]") + sig[sig.index(".") :],
    "an empty header": lambda sig: part(b"{}") + sig[sig.index(".") :],
    "a header with a name twice": lambda sig: part(b'{"alg":"ES256","alg":"none"}') + sig[sig.index(".") :],
    "a large header": lambda sig: part(b'{"alg":"ES256","x":"' + b"y" * 100_000 + b'"}') + sig[sig.index(".") :],
    "the JSON form": lambda sig: json.dumps({"protected": sig.split(".")[0], "signature": sig.split(".")[2]}),
}
for _name, _form in _FORMS.items():
    attack("4.01", f"form: {_name}")(
        lambda peer, form=_form: {**(sent := peer.signed()), "sig": form(sent["sig"])}  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    )

_OWN_KEY = new_key()
_OWN_JWK: dict[str, Any] = json.loads(_OWN_KEY.export_public())


@attack("4.01", "injection: a key in the header that verifies its own signature")
def _(peer: Peer) -> Envelope:
    sent = peer.unsigned()
    return {**sent, "sig": peer.signature(payload_of(sent), key=_OWN_KEY, alg="ES256", jwk=_OWN_JWK)}


@attack("4.01", "injection: the same without a kid")
def _(peer: Peer) -> Envelope:
    sent = peer.unsigned()
    return {**sent, "sig": peer.signature(payload_of(sent), key=_OWN_KEY, alg="ES256", kid=None, jwk=_OWN_JWK)}


for _member, _value in {
    "jwk": _OWN_JWK,
    "jku": "https://localhost/keys.json",
    "x5u": "https://169.254.169.254/latest",
    "x5c": ["MIIB"],
    "x5t": "AAAA",
    "x5t#S256": "AAAA",
    "crit": ["b64"],
    "b64": False,
}.items():
    attack("4.01", f"injection: {_member} beside a good signature")(
        lambda peer, more={_member: _value}: with_header(peer.signed(), **more)
    )

_signed_with("crit b64, as RFC 7797 has it", "4.01", b64=False, crit=["b64"])
_signed_with("typ JWT", "4.01", typ="JWT")
_signed_with("a kid of another", "4.03", kid="did:web:bob.example#k1")
_signed_with("a kid below our host", "4.03", kid="did:web:ann.example:agents:x#k1")
_signed_with("a kid that is not known", "4.01", kid="did:web:ann.example#k2")
_signed_with("a kid that is no DID URL", "4.01", kid="k1")
_signed_with("an empty kid", "4.01", kid="")
_signed_with("a kid that leads into a file", "4.01", kid="../../etc/passwd")
_signed_with("a kid with SQL", "4.01", kid="did:web:ann.example#k1' or '1'='1")
_signed_with("a long kid", "4.01", kid="did:web:ann.example#" + "k" * 500)


@attack("4.01", "attached: another hash in its middle")
def _(peer: Peer) -> Envelope:
    sent = peer.unsigned()
    other = {**sent, "body": {"type": "text/plain", "content": "other"}}
    return {**sent, "sig": peer.signature(payload_of(other), attached=True)}


@attack("4.01", "attached: the right hash, but with a space")
def _(peer: Peer) -> Envelope:
    sent = peer.unsigned()
    return {**sent, "sig": peer.signature(payload_of(sent).replace(b":", b": "), attached=True)}


@attack("4.01", "signed: the hash in upper case")
def _(peer: Peer) -> Envelope:
    sent = peer.unsigned()
    payload = payload_of(sent)
    return {**sent, "sig": peer.signature(payload[:11] + payload[11:].upper())}


@attack("4.01", "signed: only the names of the top level, as the SDK of JavaScript does")
def _(peer: Peer) -> Envelope:
    sent = peer.unsigned()
    return {**sent, "sig": peer.signature(payload_of({**sent, "body": {}}))}


for _name, _seconds in {"ten minutes old": -600, "ten minutes ahead": 600, "a year old": -31_536_000}.items():
    attack("4.01", f"time: {_name}")(
        lambda peer, away=_seconds: peer.signed(ts=utc_text(peer.now() + timedelta(seconds=away)))
    )


@attack("4.03", "address: for another agent")
def _(peer: Peer) -> Envelope:
    return peer.signed(to=["did:web:another.example"])


@attack("4.03", "address: for an agent of ours that is not there")
def _(peer: Peer) -> Envelope:
    return peer.signed(to=[f"{peer.to}:agents:nobody"])


@attack("4.03", "address: for two of ours")
def _(peer: Peer) -> Envelope:
    return peer.signed(to=[peer.to, f"{peer.to}:agents:changing"])


for _name, _token in {
    "a word": "token",
    "alg none": f"{part(json.dumps({'alg': 'none'}).encode())}.{part(b'{}')}.",
    "a CWT": part(b"\xd2\x84\x43\xa1\x01\x26\xa0"),
    "of nobody whom we trust": f"{part(json.dumps({'alg': 'ES256', 'kid': 'k'}).encode())}.{part(json.dumps({'iss': 'https://evil.example'}).encode())}.{part(bytes(64))}",
    "large": "x" * 20_000,
}.items():
    attack("4.03", f"cap_token: {_name}")(lambda peer, token=_token: peer.signed(cap_token=token))

attack("4.13", "size: larger than an envelope may be")(lambda peer: peer.signed("x" * _MEBIBYTE))
attack("4.13", "size: spaces")(lambda peer: b" " * _MEBIBYTE + wire(peer.signed()))
attack("4.13", "bomb: gzip")(bomb("gzip", gzip.compress(bytes(64 * _MEBIBYTE), mtime=0)))
attack("4.13", "bomb: zstd")(bomb("zstd", zstandard.compress(bytes(512 * _MEBIBYTE))))
attack("4.00", "bomb: gzip in gzip, the inner one cut off")(
    bomb("gzip", gzip.compress(gzip.compress(bytes(_MEBIBYTE), mtime=0), mtime=0)[:-9])
)
attack("4.00", "packing: zlib called gzip")(bomb("gzip", zlib.compress(b"hello")))
attack("4.00", "packing: gzip called zstd")(bomb("zstd", gzip.compress(b"hello")))
attack("4.00", "packing: two members")(bomb("gzip", gzip.compress(b"a") + gzip.compress(b"b")))
attack("4.15", "packing: one that is not taken")(bomb("br", b"hello"))

for _name, _body in {
    "an encoding that is not taken": ("4.15", {"type": "text/plain", "content": "x", "encoding": "utf-7"}),
    "base64 that is none": ("4.00", {"type": "image/png", "content": "!!!", "encoding": "base64"}),
    "text that is not UTF-8": ("4.00", {"type": "text/plain", "content": "_w", "encoding": "base64url"}),
    "a type that is not taken": ("4.15", {"type": "application/x-msdownload", "content": "x"}),
    "a type that is none": ("4.15", {"type": "", "content": "x"}),
    "JSON that is none": ("4.00", {"type": "application/json", "content": "{"}),
}.items():
    attack(_body[0], f"body: {_name}")(lambda peer, body=_body[1]: peer.signed(body=body))

for _intent in ("cancel", "progress", "confirm", "deny", "error"):
    attack("4.04", f"lifecycle: {_intent} of nothing")(
        lambda peer, intent=_intent: peer.signed(intent=intent, reply_to=new_id())
    )
