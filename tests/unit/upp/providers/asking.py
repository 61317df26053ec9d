"""Requests to the vendor on this machine, and what tests look at of their failures."""

from __future__ import annotations

import json
import traceback
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeAlias, cast

import pytest

from perdure.upp.errors import UPPError
from perdure.upp.json_value import JSONObject
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers._http import VendorEvent, VendorRequest, post_json, stream_events, stream_lines
from tests.clients.vendor_server import VendorServer

Way: TypeAlias = Callable[[VendorRequest], Awaitable[object]]

CANARY = "sk-canary-1234567890-abcdef"
HEADER_CANARY = "Bearer gateway-canary-0987654321"


def asked(
    vendor: VendorServer,
    body: object = None,
    *,
    timeout: float = 60,
    own: dict[str, str] | None = None,
    configured: dict[str, str] | None = None,
) -> VendorRequest:
    """A request with the canary as its key."""
    return VendorRequest(
        "acme",
        f"{vendor.url}/v1/chat",
        cast(JSONObject, {"model": "m"} if body is None else body),
        ProviderConfig(timeout=timedelta(seconds=timeout), headers=configured),
        own if own is not None else {"Authorization": f"Bearer {CANARY}"},
        [CANARY],
    )


async def events_of(request: VendorRequest) -> list[VendorEvent]:
    return [event async for event in stream_events(request)]


async def lines_of(request: VendorRequest) -> list[JSONObject]:
    return [line async for line in stream_lines(request)]


async def failure_of(request: VendorRequest, way: Way = post_json) -> UPPError:
    with pytest.raises(UPPError) as caught:
        await way(request)
    return caught.value


EVERY_WAY = pytest.mark.parametrize("way", [post_json, events_of, lines_of])


def shown(error: UPPError) -> str:
    """Everything of an error that anybody might print."""
    texts = (str(error), repr(error), repr(error.cause), json.dumps(error.to_json()), repr(error.__reduce__()))
    return "\n".join([*texts, *traceback.format_exception(error)])
