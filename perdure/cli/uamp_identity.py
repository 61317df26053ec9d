"""`perdure uamp identity`: the key by which somebody asks other agents."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, cast

import typer

from perdure.cli.output import put, put_json, say
from perdure.cli.parameters import AsJson
from perdure.cli.uamp_remote import IDENTITY_FILE
from perdure.config import load_settings
from perdure.errors import InvalidInput
from perdure.upp.json_value import JSONObject


def identity(
    did: Annotated[
        str | None, typer.Argument(metavar="DID", help="The name to make a key for, such as did:web:me.example.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(envvar="PERDURE_UAMP_IDENTITY", help=f"Where it is kept; .perdure/{IDENTITY_FILE} by default."),
    ] = None,
    ed25519: Annotated[bool, typer.Option("--ed25519", help="Make an Ed25519 key (EdDSA), not P-256 (ES256).")] = False,
    add_to: Annotated[
        Path | None,
        typer.Option(help="Add the public key to this file of known agents, which a server has as PERDURE_UAMP_KEYS."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make the key of an identity, or show the public key of the one that is there."""
    from perdure.protocols.uamp_envelope.key_set import build_key_set
    from perdure.uamp_envelope_client import new_identity, read_identity, write_identity

    path = file or load_settings().data_folder / IDENTITY_FILE
    if did is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_identity(path, new_identity(did, "EdDSA" if ed25519 else "ES256"))
    found = read_identity(path)
    keys = build_key_set([found.key.public()])
    if add_to is not None:
        _add(add_to, found.did, keys)
    if as_json:
        put_json({"did": found.did, "kid": found.key.kid, "file": str(path), "jwks": keys})
        return
    put(f"{found.key.kid}\n")
    say(f"its private key is in {path}" + ("" if add_to is None else f"; its public key is in {add_to}"))


def _add(path: Path, did: str, keys: JSONObject) -> None:
    """Write a DID's keys into a file of known agents, whole or not at all."""
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else "{}"
        known: object = json.loads(text)
        if not isinstance(known, dict):
            raise InvalidInput(f'{path} is no file of keys, {{"DID": {{"keys": [...]}}}}')
        made = path.with_name(f"{path.name}.{os.getpid()}.new")
        made.write_text(json.dumps({**cast(JSONObject, known), did: keys}, indent=2) + "\n", encoding="utf-8")
        made.replace(path)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} cannot be read or written: {error}") from error
