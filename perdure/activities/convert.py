"""Contracts to JSON and back. Fields that hold their default are not written: history is smaller, and older readers cope.

Lone surrogates survive: a value that holds one is written with escapes, since a history knows only UTF-8.

Secrets that this process knows do not: whatever goes to Temporal passes here, so no history holds one.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, TypeVar, cast

import temporalio.api.common.v1
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    EncodingPayloadConverter,
    JSONPlainPayloadConverter,
)

from perdure.activities.contracts import GenerateInput
from perdure.activities.failures import RedactedFailureConverter
from perdure.activities.short_calls import lengthen_model_call, shorten_model_call
from perdure.upp.json_value import JSONValue
from perdure.upp.redaction import known_secrets

P = TypeVar("P", bound="temporalio.api.common.v1.Payload | None")

converter = Converter(omit_if_default=True)


_write_whole = make_dict_unstructure_fn(GenerateInput, converter, _cattrs_omit_if_default=True)
_read_whole = make_dict_structure_fn(GenerateInput, converter)
converter.register_unstructure_hook(GenerateInput, lambda call: shorten_model_call(_write_whole(call)))
converter.register_structure_hook(
    GenerateInput, lambda value, _: _read_whole(lengthen_model_call(value), GenerateInput)
)


def _is_contract_type(kind: object) -> bool:
    return isinstance(kind, type) and dataclasses.is_dataclass(kind)


def _encode(contract: object) -> bytes:
    return _written(converter.unstructure(contract))


def _written(value: object) -> bytes:
    """UTF-8, or ASCII with escapes where the value holds a lone surrogate."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii")


class ContractPayloadConverter(JSONPlainPayloadConverter):
    """JSON for contracts; everything else as Temporal's own JSON converter has it."""

    def to_payload(self, value: Any) -> temporalio.api.common.v1.Payload | None:
        """See base class."""
        if not _is_contract_type(cast(object, type(value))):
            return _redacted(super().to_payload(value))
        return _redacted(temporalio.api.common.v1.Payload(metadata={"encoding": b"json/plain"}, data=_encode(value)))

    def from_payload(self, payload: temporalio.api.common.v1.Payload, type_hint: type | None = None) -> Any:
        """See base class."""
        if type_hint is None or not _is_contract_type(type_hint):
            return super().from_payload(payload, type_hint)
        return cast(Any, converter.structure(json.loads(payload.data), type_hint))


def _redacted(payload: P) -> P:
    """The payload; a new one in the place of one that holds a secret."""
    if payload is None or not known_secrets.encoded(payload.data):
        return payload
    data = _written(known_secrets.json(cast(JSONValue, json.loads(payload.data))))
    return cast(P, temporalio.api.common.v1.Payload(metadata=payload.metadata, data=data))


_CONVERTERS: list[EncodingPayloadConverter] = [
    ContractPayloadConverter() if isinstance(item, JSONPlainPayloadConverter) else item
    for item in DefaultPayloadConverter.default_encoding_payload_converters
]


class PerdurePayloadConverter(CompositePayloadConverter):
    """Temporal's default converters, with contracts in place of plain JSON."""

    def __init__(self) -> None:
        """Use what there is: the SDK makes a converter for each task, and these hold nothing."""
        super().__init__(*_CONVERTERS)


data_converter = DataConverter(
    payload_converter_class=PerdurePayloadConverter, failure_converter_class=RedactedFailureConverter
)
