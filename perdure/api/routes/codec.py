"""Temporal's remote codec: its UI and CLI send sealed payloads here and show what comes back.

Source: https://docs.temporal.io/codec-server, "Codec Server setup": POST `/encode` and `/decode`, a JSON of `Payloads` each way.
"""

from __future__ import annotations

from typing import Any, cast

from fastapi import APIRouter
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from temporalio.api.common.v1 import Payloads

from perdure.api import shapes
from perdure.api.access import Administrator, Caller
from perdure.api.answers import Answer
from perdure.api.models import CodecPayloads
from perdure.api.problems import Refused
from perdure.errors import DamagedSession, InvalidInput
from perdure.runtime.codec import SealingCodec
from perdure.store.keyring import VARIABLE
from perdure.upp.json_value import JSONObject

PATHS = ("/api/codec/encode", "/api/codec/decode")

router = APIRouter(prefix="/api/codec", tags=["codec"])


@router.post("/encode", operation_id="encodePayloads", response_model=shapes.CodecPayloads)
async def encode(caller: Administrator, body: CodecPayloads) -> Answer:
    """Seal payloads of Temporal, as a worker would."""
    codec = _codec(caller)
    return _answer(await codec.encode(_read(body).payloads))


@router.post("/decode", operation_id="decodePayloads", response_model=shapes.CodecPayloads)
async def decode(caller: Administrator, body: CodecPayloads) -> Answer:
    """Open payloads of Temporal; what is not sealed comes back as it is."""
    codec = _codec(caller)
    try:
        return _answer(await codec.decode(_read(body).payloads))
    except DamagedSession as error:
        raise InvalidInput(f"payloads: {error}") from error


def _codec(caller: Caller) -> SealingCodec:
    keyring = caller.database.keyring
    if not keyring:
        raise Refused(404, "no_keys", f"nothing is sealed here: {VARIABLE} is not set")
    return SealingCodec(keyring, caller.tenant)


def _read(body: CodecPayloads) -> Payloads:
    try:
        return ParseDict({"payloads": body.payloads}, Payloads(), ignore_unknown_fields=True)
    except (ParseError, ValueError) as error:
        raise InvalidInput(f"payloads: these are no payloads of Temporal: {error}") from error


def _answer(payloads: Any) -> Answer:
    return Answer(cast(JSONObject, MessageToDict(Payloads(payloads=payloads))))
