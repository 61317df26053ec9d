"""What `providerMetadata` says of a reasoning block: who made it, under which id, and its signature."""

from __future__ import annotations

from perdure.protocols.threadprotocol.models import ThinkingAction
from perdure.upp.json_value import JSONObject, JSONValue

_PYDANTIC_AI = "pydantic_ai"


def read_provider_metadata(metadata: JSONValue) -> JSONObject:
    """The members of a thinking that are told: as Pydantic AI writes them, or under the provider's own name."""
    if not isinstance(metadata, dict) or not metadata:
        return {}
    name = _PYDANTIC_AI if _PYDANTIC_AI in metadata else next(iter(metadata))
    told = metadata[name]
    source = told if isinstance(told, dict) else {}
    provider = source.get("provider_name") if name == _PYDANTIC_AI else name
    thinking_id = source.get("id") if name == _PYDANTIC_AI else source.get("itemId")
    fields: JSONObject = {
        "provider_name": provider,
        "signature": source.get("signature"),
        "thinking_id": thinking_id,
    }
    return {key: value for key, value in fields.items() if isinstance(value, str)}


def write_provider_metadata(action: ThinkingAction) -> JSONObject:
    """The `providerMetadata` of a thinking, under the provider's own name; empty if there is nothing to tell."""
    told: JSONObject = {"signature": action.signature, "itemId": action.thinking_id}
    present: JSONObject = {name: value for name, value in told.items() if value is not None}
    metadata: JSONObject = {action.provider_name: present}
    return {"providerMetadata": metadata} if present else {}
