"""No key gets into an error or a log."""

from __future__ import annotations

import logging
import string
from datetime import timedelta

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.upp.errors import ErrorCode
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers._http import VendorRequest, error_in_stream, post_json
from perdure.upp.providers._redaction import redact, secrets_of
from tests.clients.vendor_server import CUT, Reply, VendorServer, json_reply, lines_reply, sse_reply
from tests.unit.upp.providers.asking import (
    CANARY,
    EVERY_WAY,
    HEADER_CANARY,
    Way,
    asked,
    failure_of,
    shown,
)

ECHO = json_reply({"error": {"message": f"bad key {CANARY} at {HEADER_CANARY}", "key": CANARY}}, status=401)


@pytest.mark.parametrize(
    "reply",
    [
        ECHO,
        Reply(500, {}, [f"oops {CANARY} {HEADER_CANARY}".encode()]),
        Reply(200, {}, [f"<html>{CANARY} {HEADER_CANARY}".encode()]),
        Reply(200, {}, [b"<html>" + b" " * 50 + CANARY.encode()]),
        sse_reply(f"data: {CANARY}\n\n").then(CUT),
        lines_reply(f"{CANARY} {HEADER_CANARY}\n"),
        json_reply({}).then(CUT),
        Reply(pieces=[CUT]),
        json_reply({}).after(60.0),
    ],
)
@EVERY_WAY
async def test_they_are_in_no_error_and_in_no_log(
    vendor: VendorServer, way: Way, reply: Reply, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("httpx", "httpcore", "asyncio"):
        caplog.set_level(logging.DEBUG, logger=name)
    vendor.replies(reply)
    request = asked(vendor, timeout=0.2, configured={"X-Gateway": HEADER_CANARY})
    error = await failure_of(request, way)
    everything = shown(error) + "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert any(record.name.startswith("httpcore") for record in caplog.records)
    for secret in (CANARY, CANARY[:8], "gateway-canary"):
        assert secret not in everything


async def test_httpcore_at_debug_shows_no_header_that_is_sent(
    vendor: VendorServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    vendor.replies(json_reply({}))
    await post_json(asked(vendor, own={"x-api-key": CANARY}, configured={"X-Gateway": HEADER_CANARY}))
    assert vendor.received[0].headers["x-api-key"] == CANARY
    text = "\n".join(record.getMessage() for record in caplog.records)
    assert "send_request_headers" in text
    assert CANARY not in text
    assert HEADER_CANARY not in text


def test_a_request_does_not_show_them() -> None:
    request = VendorRequest(
        "acme", "https://h", {}, ProviderConfig(api_key=CANARY, headers={"X": CANARY}), {"a": CANARY}, [CANARY]
    )
    assert CANARY not in repr(request)


async def test_an_illegal_answer_that_shows_them_is_masked() -> None:
    class Broken:
        async def handle_async_request(self, request: httpx.Request, /) -> httpx.Response:
            raise httpx.RemoteProtocolError(f"illegal header line: {request.headers['x-api-key']}")

    config = ProviderConfig(transport=Broken())
    error = await failure_of(VendorRequest("acme", "https://h", {}, config, {"x-api-key": CANARY}, [CANARY]))
    assert "sk-c...cdef" in str(error.cause)
    assert CANARY not in shown(error)


def behind(error: BaseException) -> list[BaseException]:
    """The error and all errors that led to it, as whoever reports errors walks them."""
    found: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and one not in found:
            found.append(one)
            waiting += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
    return found


def held(error: BaseException) -> str:
    """What an error holds, with the headers and address of a request among it."""
    parts = [repr(error), str(error), repr(error.args), repr(vars(error))]
    for value in vars(error).values():
        if isinstance(value, httpx.Request):
            parts += [str(value.url), str(value.headers.raw), str(value.content)]
    return "\n".join(parts)


class Refusing:
    """A transport that fails as httpx does where nothing listens."""

    async def handle_async_request(self, request: httpx.Request, /) -> httpx.Response:
        raise httpx.ConnectError("All connection attempts failed", request=request) from OSError("refused")


@pytest.mark.parametrize("way_to_fail", ["refused", "refused by a transport", "cut", "cut in the body", "timeout"])
@EVERY_WAY
async def test_no_error_behind_the_error_holds_the_request(vendor: VendorServer, way: Way, way_to_fail: str) -> None:
    replies = {"cut": Reply(pieces=[CUT]), "cut in the body": sse_reply("data: 1").then(CUT)}
    vendor.replies(replies.get(way_to_fail, json_reply({}).after(60.0)))
    url = f"http://127.0.0.1:9/v1?key={CANARY}" if way_to_fail == "refused" else f"{vendor.url}/v1?key={CANARY}"
    transport = Refusing() if way_to_fail == "refused by a transport" else None
    limit = timedelta(seconds=0.1 if way_to_fail == "timeout" else 60)
    config = ProviderConfig(timeout=limit, transport=transport)
    error = await failure_of(VendorRequest("acme", url, {}, config, {"x-api-key": CANARY}, [CANARY]), way)
    assert error.code == (ErrorCode.TIMEOUT if way_to_fail == "timeout" else ErrorCode.NETWORK_ERROR)
    chain = behind(error)
    assert len(chain) > 1
    assert all(CANARY not in held(one) for one in chain)


async def test_a_key_in_the_address_is_masked(vendor: VendorServer) -> None:
    vendor.replies(json_reply({"error": {"message": f"no such path: /v1?key={CANARY}&v=1"}}, status=404))
    error = await failure_of(VendorRequest("acme", f"{vendor.url}/v1?key={CANARY}&v=1", {}, ProviderConfig()))
    assert error.message == "no such path: /v1?key=sk-c...cdef&v=1"


def test_an_error_inside_a_stream_is_masked() -> None:
    request = VendorRequest("acme", "https://h", {}, ProviderConfig(), {}, [CANARY])
    error = error_in_stream(request, {"type": "overloaded_error", "message": f"busy, {CANARY}"})
    assert (error.code, error.message) == (ErrorCode.PROVIDER_ERROR, "busy, sk-c...cdef")


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (f"key={CANARY}&x=1", "key=sk-c...cdef&x=1"),
        (f"{CANARY}{CANARY}", "sk-c...cdefsk-c...cdef"),
        ("nothing of it", "nothing of it"),
    ],
)
def test_a_key_in_a_text_is_masked_wherever_it_stands(text: str, redacted: str) -> None:
    assert redact(text, [CANARY]) == redacted


@pytest.mark.parametrize("form", ['abc/def+ghi=&"jkl', "abc%2Fdef%2Bghi%3D%26%22jkl", 'abc/def+ghi=&\\"jkl'])
def test_a_key_is_masked_as_urls_and_json_write_it(form: str) -> None:
    assert redact(f"<{form}>", ['abc/def+ghi=&"jkl']) == '<abc/..."jkl>'


def test_a_key_that_holds_another_is_masked_whole() -> None:
    assert redact("longer-secret-key", ["secret-key", "longer-secret-key"]) == "long...-key"


def test_a_short_key_is_masked_whole_and_a_dummy_stays() -> None:
    assert redact("pass: word, x", ["pass", "x", ""]) == "***: word, x"


@given(st.text(string.ascii_letters + string.digits + "-_/+=", min_size=9), st.text("äö. {"), st.text("äö. {"))
def test_no_key_survives(key: str, before: str, after: str) -> None:
    assert key not in redact(before + key + after, [key])


def test_headers_of_eight_characters_and_more_are_secrets_also_without_their_scheme() -> None:
    headers = {"Authorization": "Bearer abcdefgh", "X-Team": "12345678", "X-Short": "1234567"}
    assert secrets_of(["key"], headers, "https://h/v1") == ["key", "Bearer abcdefgh", "abcdefgh", "12345678"]
    assert secrets_of(["key"], None, "https://h/v1?key=abcdefgh&v=1") == ["key", "abcdefgh"]
