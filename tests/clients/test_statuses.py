"""Every error status, whole and in place of a stream, by every adapter."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.upp.errors import ErrorCode, UPPError
from tests.clients.adapters import ADAPTERS
from tests.clients.vendor_server import VendorServer, json_reply

CODES = {
    400: ErrorCode.INVALID_REQUEST,
    401: ErrorCode.AUTHENTICATION_FAILED,
    402: ErrorCode.QUOTA_EXCEEDED,
    403: ErrorCode.AUTHENTICATION_FAILED,
    404: ErrorCode.MODEL_NOT_FOUND,
    408: ErrorCode.TIMEOUT,
    409: ErrorCode.INVALID_REQUEST,
    413: ErrorCode.CONTEXT_LENGTH_EXCEEDED,
    422: ErrorCode.INVALID_REQUEST,
    425: ErrorCode.PROVIDER_ERROR,
    429: ErrorCode.RATE_LIMITED,
    451: ErrorCode.CONTENT_FILTERED,
    500: ErrorCode.PROVIDER_ERROR,
    502: ErrorCode.PROVIDER_ERROR,
    503: ErrorCode.PROVIDER_ERROR,
    504: ErrorCode.PROVIDER_ERROR,
    529: ErrorCode.PROVIDER_ERROR,
}
BODIES: dict[str, Any] = {
    "anthropic": {"type": "error", "error": {"type": "error_of_no_kind", "message": "Not so."}},
    "openai": {"error": {"message": "Not so.", "type": "error_of_no_kind", "param": None, "code": None}},
    "openrouter": {"error": {"message": "Not so."}},
    "google": {"error": {"message": "Not so.", "status": "UNKNOWN"}},
    "ollama": {"error": "Not so."},
}


@pytest.mark.parametrize("name", ADAPTERS)
@pytest.mark.parametrize("status", CODES)
async def test_a_status_has_its_code_whole_and_in_place_of_a_stream(
    vendor: VendorServer, name: str, status: int
) -> None:
    adapter = ADAPTERS[name]
    provider = adapter.model.provider
    vendor.replies(json_reply(BODIES[provider], status))
    with pytest.raises(UPPError) as whole:
        await adapter.model.complete(adapter.request(vendor))
    with pytest.raises(UPPError) as streamed:
        await adapter.model.stream(adapter.request(vendor)).response()
    for error in (whole.value, streamed.value):
        assert (error.code, error.status_code, error.provider) == (CODES[status], status, provider)
        assert error.message.startswith("Not so.")
