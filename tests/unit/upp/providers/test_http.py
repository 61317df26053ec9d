"""The adapters' way to a vendor: what goes over the wire, what comes back, and how it fails."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta
from typing import cast

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers import _http
from perdure.upp.providers._http import (
    VendorEvent,
    VendorRequest,
    endpoint,
    error_in_stream,
    post_json,
    stream_events,
    stream_lines,
)
from tests.clients.vendor_server import CUT, Reply, VendorServer, json_reply, lines_reply, sse_reply
from tests.unit.upp.providers.asking import (
    CANARY,
    EVERY_WAY,
    Way,
    asked,
    events_of,
    failure_of,
    lines_of,
    shown,
)


class TestRequest:
    async def test_it_is_one_post_of_json(self, vendor: VendorServer) -> None:
        vendor.replies(json_reply({"ok": True}))
        assert await post_json(asked(vendor, {"text": "grüße\u2028", "n": 1})) == {"ok": True}
        (received,) = vendor.received
        assert (received.method, received.path) == ("POST", "/v1/chat")
        assert received.headers["content-type"] == "application/json"
        assert received.body == '{"text":"grüße\u2028","n":1}'.encode()

    @pytest.mark.parametrize(
        ("way", "reply", "accept"),
        [
            (post_json, json_reply({}), "application/json"),
            (events_of, sse_reply(""), "text/event-stream"),
            (lines_of, lines_reply(""), "application/x-ndjson"),
        ],
    )
    async def test_it_says_what_it_reads(self, vendor: VendorServer, way: Way, reply: Reply, accept: str) -> None:
        vendor.replies(reply)
        await way(asked(vendor))
        assert vendor.received[0].headers["accept"] == accept

    async def test_configured_headers_win_over_all_others_in_whatever_case(self, vendor: VendorServer) -> None:
        vendor.replies(json_reply({}))
        await post_json(
            asked(
                vendor,
                own={"x-api-key": "theirs", "X-Version": "1"},
                configured={"X-API-Key": "mine", "content-TYPE": "application/x", "X-Blank": " a\tb "},
            )
        )
        headers = vendor.received[0].headers
        assert headers["x-api-key"] == "mine"
        assert headers["x-version"] == "1"
        assert headers["content-type"] == "application/x"
        assert headers["x-blank"] == "a\tb"

    async def test_a_header_of_latin_text_is_sent(self, vendor: VendorServer) -> None:
        vendor.replies(json_reply({}))
        await post_json(asked(vendor, configured={"X-Title": "Café"}))
        assert vendor.received[0].headers["x-title"] == "Café"

    @pytest.mark.parametrize("value", [f"{CANARY}\r\nX-Evil: 1", f"{CANARY}\n", f"{CANARY}\0", f"{CANARY}–", None, 7])
    async def test_a_header_that_cannot_be_sent_is_named_without_its_value(
        self, vendor: VendorServer, value: object
    ) -> None:
        error = await failure_of(asked(vendor, configured={"X-Team": cast(str, value)}))
        assert error.code == ErrorCode.INVALID_REQUEST
        assert "'X-Team'" in error.message
        assert CANARY not in shown(error)
        assert vendor.received == []

    @pytest.mark.parametrize("name", [f"Authorization: Bearer {CANARY}", "", "X Team", "Überschrift", "X\n"])
    async def test_a_header_name_that_cannot_be_sent_is_refused(self, vendor: VendorServer, name: str) -> None:
        error = await failure_of(asked(vendor, configured={name: "x"}))
        assert error.code == ErrorCode.INVALID_REQUEST
        assert "name of a header" in error.message
        assert CANARY not in shown(error)

    @pytest.mark.parametrize(
        ("body", "named"),
        [
            ({"params": {"temperature": float("nan")}}, "$.params.temperature"),
            ({"stop": [{1, 2}, object()]}, "$.stop[1]"),
            ({"a": {7: "x"}}, "key 7"),
            ({"a": (1, 2)}, "tuple"),
        ],
    )
    async def test_what_is_no_json_is_named_and_not_sent(self, vendor: VendorServer, body: object, named: str) -> None:
        error = await failure_of(asked(vendor, body))
        assert error.code == ErrorCode.INVALID_REQUEST
        assert named in error.message
        assert vendor.received == []

    async def test_a_body_that_contains_itself_is_refused(self, vendor: VendorServer) -> None:
        body: JSONObject = {}
        body["me"] = body
        error = await failure_of(asked(vendor, body))
        assert error.code == ErrorCode.INVALID_REQUEST
        assert "contains itself" in error.message

    async def test_lone_surrogates_go_out_as_replacement_characters(self, vendor: VendorServer) -> None:
        vendor.replies(json_reply({}))
        await post_json(asked(vendor, {"text": "a\ud800b", "pair": "\ud83d\ude00"}))
        assert vendor.received[0].body.decode("utf-8") == '{"text":"a�b","pair":"😀"}'

    async def test_cookies_of_a_vendor_are_not_kept(self, vendor: VendorServer) -> None:
        vendor.replies(json_reply({}, headers={"set-cookie": "account=1; Path=/"}))
        await post_json(asked(vendor))
        await post_json(asked(vendor))
        assert "cookie" not in vendor.received[1].headers

    async def test_it_goes_through_the_configured_transport(self) -> None:
        class Canned:  # nothing but the one method
            async def handle_async_request(self, request: httpx.Request, /) -> httpx.Response:
                return httpx.Response(200, json={"host": request.url.host})

        request = VendorRequest("acme", "https://far.example/v1", {}, ProviderConfig(transport=Canned()))
        assert await post_json(request) == {"host": "far.example"}

    async def test_a_transport_that_runs_out_of_time_is_a_timeout(self) -> None:
        class Slow:
            async def handle_async_request(self, request: httpx.Request, /) -> httpx.Response:
                raise TimeoutError

        request = VendorRequest("acme", "https://far.example/v1", {}, ProviderConfig(transport=Slow()))
        assert (await failure_of(request, events_of)).code == ErrorCode.TIMEOUT


class TestWholeAnswer:
    async def test_it_may_come_in_pieces_and_compressed(self, vendor: VendorServer) -> None:
        data = gzip.compress(json.dumps({"text": "x" * 1000}).encode())
        pieces = [data[start : start + 7] for start in range(0, len(data), 7)]
        vendor.replies(Reply(200, {"content-encoding": "gzip"}, pieces))
        assert await post_json(asked(vendor)) == {"text": "x" * 1000}

    async def test_lone_surrogates_in_it_become_replacement_characters(self, vendor: VendorServer) -> None:
        vendor.replies(Reply(200, {}, [rb'{"text": "a\ud800b"}']))
        assert await post_json(asked(vendor)) == {"text": "a�b"}

    @pytest.mark.parametrize(
        ("body", "shown_part"),
        [
            (b"", "it is empty"),
            (b"  \n", "it is empty"),
            (b"<html>Sign in</html>", "<html>Sign in"),
            (b"[1]", "'[1]'"),
            (b'"text"', "begins with"),
            (b'{"a": NaN}', "NaN"),
            (b'{"a": 1', "begins with"),
            (b"\xff\xfe{}", "begins with"),
            (b"[" * 100_000, "begins with"),
        ],
    )
    async def test_what_is_no_json_object_is_an_invalid_response(
        self, vendor: VendorServer, body: bytes, shown_part: str
    ) -> None:
        vendor.replies(Reply(200, {"content-type": "application/json"}, [body]))
        error = await failure_of(asked(vendor))
        assert error.code == ErrorCode.INVALID_RESPONSE
        assert shown_part in error.message
        assert len(error.message) < 250

    async def test_an_answer_without_content_is_an_invalid_response(self, vendor: VendorServer) -> None:
        vendor.replies(Reply(204, {}, [b""]))
        assert (await failure_of(asked(vendor))).code == ErrorCode.INVALID_RESPONSE

    async def test_an_answer_that_does_not_decompress_is_an_invalid_response(self, vendor: VendorServer) -> None:
        vendor.replies(Reply(200, {"content-encoding": "gzip"}, [b"not gzip"]))
        assert (await failure_of(asked(vendor))).code == ErrorCode.INVALID_RESPONSE

    async def test_an_answer_beyond_all_measure_is_not_read_to_its_end(
        self, vendor: VendorServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_http, "_MAX_ANSWER_BYTES", 1000)
        vendor.replies(Reply(200, {}, [b" " * 900, b" " * 900, 60.0]))
        error = await failure_of(asked(vendor))
        assert error.code == ErrorCode.INVALID_RESPONSE
        assert "larger than" in error.message

    async def test_it_has_one_deadline_however_steadily_it_comes(self, vendor: VendorServer) -> None:
        vendor.replies(Reply(200, {}, [b" ", *([0.1, b" "] * 100)]))
        error = await failure_of(asked(vendor, timeout=0.3))
        assert error.code == ErrorCode.TIMEOUT
        assert "0.3 s" in error.message
        await vendor.hung_up()


class TestEvents:
    @pytest.mark.parametrize("piece", [None, 1, 3, 7])
    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    async def test_they_are_the_same_however_they_are_cut_and_ended(
        self, vendor: VendorServer, piece: int | None, end: str
    ) -> None:
        raw = '\ufeff: hi\n\nevent: delta\ndata: {"t":\ndata: "ü\u2028😀"}\n\nid: 1\ndata:{"n":1}\n\n'
        vendor.replies(sse_reply(raw.replace("\n", end), piece=piece))
        assert await events_of(asked(vendor)) == [
            VendorEvent("delta", {"t": "ü\u2028😀"}),
            VendorEvent("message", {"n": 1}),
        ]

    async def test_done_ends_them(self, vendor: VendorServer) -> None:
        vendor.replies(sse_reply('data: {"n":1}\n\ndata: [DONE]\n\ndata: {"n":2}\n\n'))
        assert [event.data for event in await events_of(asked(vendor))] == [{"n": 1}]

    @pytest.mark.parametrize("data", ["{broken", "[1]", '"text"', "NaN", '{"a":1e999}'])
    async def test_data_that_is_no_object_is_skipped_and_logged_without_its_content(
        self, vendor: VendorServer, data: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        vendor.replies(sse_reply(f'data: {data}\n\ndata: {{"n":2}}\n\n'))
        assert [event.data for event in await events_of(asked(vendor))] == [{"n": 2}]
        (record,) = (record for record in caplog.records if record.name == _http.__name__)
        assert (record.levelname, record.getMessage()) == ("WARNING", "provider.malformed_event")
        assert data not in str(record.__dict__)

    async def test_an_event_without_data_is_nothing(
        self, vendor: VendorServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        vendor.replies(sse_reply("event: ping\n\nid: 3\n\n\n\nretry: 5\n\n"))
        assert await events_of(asked(vendor)) == []
        assert [record for record in caplog.records if record.name == _http.__name__] == []

    async def test_a_stream_without_an_event_just_ends(self, vendor: VendorServer) -> None:
        vendor.replies(sse_reply(""))
        assert await events_of(asked(vendor)) == []

    async def test_each_comes_at_once(self, vendor: VendorServer) -> None:
        vendor.replies(sse_reply('data: {"n":1}\n\n').then(60.0))
        async with aclosing(stream_events(asked(vendor, timeout=60))) as stream:
            assert (await asyncio.wait_for(anext(stream), 50)).data == {"n": 1}

    async def test_comments_keep_them_alive(self, vendor: VendorServer) -> None:
        comments = [part for _ in range(8) for part in (0.5, b": keep-alive\n\n")]
        vendor.replies(sse_reply("").then(*comments, b'data: {"n":1}\n\n'))
        assert [event.data for event in await events_of(asked(vendor, timeout=3))] == [{"n": 1}]

    async def test_lone_surrogates_in_them_become_replacement_characters(self, vendor: VendorServer) -> None:
        vendor.replies(sse_reply(rb'data: {"t": "\ud83d"}' + b"\n\n"))
        assert (await events_of(asked(vendor)))[0].data == {"t": "�"}

    async def test_an_error_in_place_of_them_is_raised(self, vendor: VendorServer) -> None:
        vendor.replies(json_reply({"error": {"message": f"no {CANARY}", "code": "insufficient_quota"}}))
        error = await failure_of(asked(vendor), events_of)
        assert (error.code, error.message) == (ErrorCode.QUOTA_EXCEEDED, "no sk-c...cdef")

    @pytest.mark.parametrize(
        ("reply", "named"),
        [
            (json_reply({"text": "hi"}), "application/json"),
            (json_reply({"error": None}), "application/json"),
            (Reply(200, {"content-type": "text/html"}, [b"<html>" + CANARY.encode()]), "<html>sk-c...cdef"),
            (Reply(200, {}, [b""]), "no type"),
        ],
    )
    async def test_what_is_no_stream_of_them_is_an_invalid_response(
        self, vendor: VendorServer, reply: Reply, named: str
    ) -> None:
        vendor.replies(reply)
        error = await failure_of(asked(vendor), events_of)
        assert error.code == ErrorCode.INVALID_RESPONSE
        assert named in error.message

    @given(st.lists(st.dictionaries(st.text(), st.text()), max_size=4), st.integers(1, 9))
    @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
    def test_any_object_comes_through_whole(self, objects: list[dict[str, str]], piece: int) -> None:
        raw = "".join(f"data: {json.dumps(value, ensure_ascii=False)}\n\n" for value in objects)

        async def read() -> list[JSONObject]:
            async def handle(_: httpx.Request) -> httpx.Response:
                async def chunks() -> AsyncGenerator[bytes, None]:
                    data = raw.encode()
                    for start in range(0, len(data), piece):
                        yield data[start : start + piece]

                return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=chunks())

            config = ProviderConfig(transport=httpx.MockTransport(handle))
            return [event.data for event in await events_of(VendorRequest("acme", "https://far.example", {}, config))]

        assert asyncio.run(read()) == objects


class TestLines:
    @pytest.mark.parametrize("piece", [None, 1, 5])
    async def test_they_end_at_line_feeds_only(self, vendor: VendorServer, piece: int | None) -> None:
        vendor.replies(lines_reply('{"t":"a\u2028b\u2029c\x85d"}\r\n\n \n{"t":"e"}', piece=piece))
        assert await lines_of(asked(vendor)) == [{"t": "a\u2028b\u2029c\x85d"}, {"t": "e"}]

    async def test_each_comes_at_once(self, vendor: VendorServer) -> None:
        vendor.replies(lines_reply('{"n":1}\n').then(60.0))
        async with aclosing(stream_lines(asked(vendor, timeout=60))) as stream:
            assert await asyncio.wait_for(anext(stream), 50) == {"n": 1}

    @pytest.mark.parametrize("line", ["<html>", "[1]", "{", "NaN"])
    async def test_one_that_is_no_object_is_an_invalid_response(self, vendor: VendorServer, line: str) -> None:
        vendor.replies(lines_reply(f"{line}\n"))
        error = await failure_of(asked(vendor), lines_of)
        assert error.code == ErrorCode.INVALID_RESPONSE
        assert line in error.message


class TestFailure:
    @EVERY_WAY
    async def test_nobody_at_the_address_is_a_network_error_with_its_cause(self, way: Way) -> None:
        async with VendorServer() as gone:
            request = asked(gone)
        error = await failure_of(request, way)
        assert error.code == ErrorCode.NETWORK_ERROR
        assert error.message.startswith("Network error: ConnectError")
        assert isinstance(error.cause, ConnectionError)
        assert error.__cause__ is error.cause

    async def test_a_host_that_does_not_exist_is_a_network_error(self) -> None:
        request = VendorRequest("acme", "http://nowhere.invalid/v1", {}, ProviderConfig())
        assert (await failure_of(request)).code == ErrorCode.NETWORK_ERROR

    @EVERY_WAY
    async def test_a_connection_closed_without_an_answer_is_a_network_error(
        self, vendor: VendorServer, way: Way
    ) -> None:
        vendor.replies(Reply(pieces=[CUT]))
        assert (await failure_of(asked(vendor), way)).code == ErrorCode.NETWORK_ERROR

    @pytest.mark.parametrize(
        ("way", "reply"),
        [
            (post_json, json_reply({"a": 1}).then(CUT)),
            (events_of, sse_reply('data: {"n":1}\n\ndata: {"n":').then(CUT)),
            (lines_of, lines_reply('{"n":1}\n{"n":').then(CUT)),
        ],
    )
    async def test_an_answer_cut_in_the_middle_is_a_network_error(
        self, vendor: VendorServer, way: Way, reply: Reply
    ) -> None:
        vendor.replies(reply)
        error = await failure_of(asked(vendor), way)
        assert error.code == ErrorCode.NETWORK_ERROR
        assert isinstance(error.cause, ConnectionError)

    async def test_events_before_the_cut_are_yielded(self, vendor: VendorServer) -> None:
        vendor.replies(sse_reply('data: {"n":1}\n\n').then(CUT))
        stream = stream_events(asked(vendor))
        assert (await anext(stream)).data == {"n": 1}
        with pytest.raises(UPPError, match="NETWORK_ERROR"):
            await anext(stream)

    @EVERY_WAY
    async def test_a_first_byte_after_the_time_limit_is_a_timeout(self, vendor: VendorServer, way: Way) -> None:
        vendor.replies(json_reply({}).after(60.0))
        error = await failure_of(asked(vendor, timeout=0.1), way)
        assert (error.code, error.message) == (ErrorCode.TIMEOUT, "the vendor did not answer within 0.1 s")
        await vendor.hung_up()

    @pytest.mark.parametrize(
        ("way", "reply"), [(events_of, sse_reply("data: {}\n\n")), (lines_of, lines_reply("{}\n"))]
    )
    async def test_a_stream_that_falls_silent_is_a_timeout(self, vendor: VendorServer, way: Way, reply: Reply) -> None:
        vendor.replies(reply.then(60.0))
        assert (await failure_of(asked(vendor, timeout=0.1), way)).code == ErrorCode.TIMEOUT

    @EVERY_WAY
    async def test_an_answer_with_an_error_status_is_its_error(self, vendor: VendorServer, way: Way) -> None:
        vendor.replies(json_reply({"error": {"message": "slow down"}}, status=429, headers={"retry-after": "3"}))
        error = await failure_of(asked(vendor), way)
        assert (error.code, error.message, error.status_code) == (ErrorCode.RATE_LIMITED, "slow down", 429)
        assert (error.provider, error.retry_after) == ("acme", timedelta(seconds=3))

    async def test_an_error_body_is_read_up_to_a_limit(self, vendor: VendorServer) -> None:
        vendor.replies(Reply(500, {}, [b"x" * 70_000, 60.0]))
        error = await failure_of(asked(vendor))
        assert (error.code, error.message) == (ErrorCode.PROVIDER_ERROR, "HTTP 500: Internal Server Error")

    @EVERY_WAY
    async def test_an_error_body_that_is_cut_leaves_the_status(self, vendor: VendorServer, way: Way) -> None:
        vendor.replies(Reply(401, {}, [b'{"err', CUT]))
        error = await failure_of(asked(vendor), way)
        assert (error.code, error.status_code) == (ErrorCode.AUTHENTICATION_FAILED, 401)

    @pytest.mark.parametrize("status", [301, 302, 307, 308])
    async def test_a_redirect_is_not_followed_and_named_by_its_host_only(
        self, vendor: VendorServer, status: int
    ) -> None:
        vendor.replies(Reply(status, {"location": f"https://login.example/x?token={CANARY}"}, [b""]))
        error = await failure_of(asked(vendor))
        assert error.code == ErrorCode.INVALID_REQUEST
        assert "login.example;" in error.message
        assert "base_url" in error.message
        assert CANARY not in shown(error)
        assert len(vendor.received) == 1

    @pytest.mark.parametrize(
        "url", ["ftp://host/v1", "/v1", f"http://h\n/{CANARY}", f"http://{'ö' * 64}.example/v1", "http://xn--a/v1"]
    )
    async def test_an_address_that_cannot_be_used_is_an_invalid_request(self, url: str) -> None:
        error = await failure_of(VendorRequest("acme", url, {}, ProviderConfig()))
        assert error.code == ErrorCode.INVALID_REQUEST
        assert CANARY not in shown(error)


@pytest.mark.parametrize(
    ("given_url", "whole"),
    [
        (None, "https://api.acme.example/v1/chat/completions"),
        ("http://localhost:8080/v1", "http://localhost:8080/v1/chat/completions"),
        ("http://localhost:8080/v1/", "http://localhost:8080/v1/chat/completions"),
        ("http://localhost:8080", "http://localhost:8080/chat/completions"),
        ("http://gate/x/chat/completions", "http://gate/x/chat/completions"),
        ("http://gate/x/chat/completions/", "http://gate/x/chat/completions"),
        ("http://gate/x?api-version=1", "http://gate/x/chat/completions?api-version=1"),
        ("http://gate/chat/completions?api-version=1", "http://gate/chat/completions?api-version=1"),
        ("http://[::1]:9/v1", "http://[::1]:9/v1/chat/completions"),
    ],
)
def test_an_endpoint_is_the_base_address_and_the_path_once(given_url: str | None, whole: str) -> None:
    assert endpoint(given_url, "https://api.acme.example/v1", "/chat/completions") == whole


def test_the_values_of_errors_are_json() -> None:
    value: JSONValue = ["odd"]
    request = VendorRequest("acme", "https://h", {}, ProviderConfig())
    assert error_in_stream(request, value).message == "the vendor sent an error without a text"
