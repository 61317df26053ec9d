"""Errors as OpenAI's own client and our two adapters for its APIs understand them."""

from __future__ import annotations

from typing import Any

import openai as sdk
import pytest

from perdure.upp.errors import ErrorCode, UPPError
from tests.clients.adapters import ADAPTERS
from tests.clients.vendor_server import VendorServer, json_reply

ERRORS: list[tuple[int, type[sdk.APIStatusError], ErrorCode]] = [
    (400, sdk.BadRequestError, ErrorCode.INVALID_REQUEST),
    (401, sdk.AuthenticationError, ErrorCode.AUTHENTICATION_FAILED),
    (403, sdk.PermissionDeniedError, ErrorCode.AUTHENTICATION_FAILED),
    (404, sdk.NotFoundError, ErrorCode.MODEL_NOT_FOUND),
    (409, sdk.ConflictError, ErrorCode.INVALID_REQUEST),
    (422, sdk.UnprocessableEntityError, ErrorCode.INVALID_REQUEST),
    (429, sdk.RateLimitError, ErrorCode.RATE_LIMITED),
    (500, sdk.InternalServerError, ErrorCode.PROVIDER_ERROR),
    (503, sdk.InternalServerError, ErrorCode.PROVIDER_ERROR),
]


async def ask_by_sdk(vendor: VendorServer, api: str) -> Any:
    plain = sdk.DefaultAsyncHttpxClient(verify=False)  # loading certificates takes longer than all else here
    async with sdk.AsyncOpenAI(api_key="k", base_url=vendor.url, max_retries=0, http_client=plain) as client:
        if api == "responses":
            return await client.responses.create(model="gpt-5-mini", input="hi")
        return await client.chat.completions.create(model="gpt-5-mini", messages=[{"role": "user", "content": "hi"}])


@pytest.mark.parametrize("api", ["completions", "responses"])
@pytest.mark.parametrize(("status", "kind", "code"), ERRORS)
async def test_the_client_fails_by_the_status_and_the_words_that_we_fail_by(
    vendor: VendorServer, api: str, status: int, kind: type[sdk.APIStatusError], code: ErrorCode
) -> None:
    error = {"message": "Not so.", "type": "invalid_request_error", "param": None, "code": None}
    vendor.replies(json_reply({"error": error}, status))
    with pytest.raises(kind, match="Not so") as theirs:
        await ask_by_sdk(vendor, api)
    with pytest.raises(UPPError, match="Not so") as ours:
        await ADAPTERS[api].model.complete(ADAPTERS[api].request(vendor))
    assert (ours.value.code, ours.value.status_code) == (code, theirs.value.status_code)
    assert vendor.received[0].path == vendor.received[1].path
