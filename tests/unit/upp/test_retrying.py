"""Model calls with retries, against a vendor on this machine that fails in every way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from perdure.upp.errors import RETRYABLE_CODES, ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import AssistantMessage, UserMessage
from perdure.upp.provider import BoundLLMModel, LLMCapabilities, LLMRequest, LLMResponse, LLMStreamResult
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.providers._http import VendorRequest, post_json, stream_events
from perdure.upp.retry import ExponentialBackoff, NoRetry, RetryAfterStrategy, RetryStrategy, TokenBucket
from perdure.upp.retrying import Attempts, complete_with_retries, stream_with_retries
from perdure.upp.stream import StreamEvent, text_delta
from perdure.upp.tools import Tool
from perdure.upp.usage import TokenUsage
from tests.clients.vendor_server import CUT, Reply, VendorServer, json_reply, sse_reply


class EchoModel:
    """The least adapter there can be: it sends nothing of the request and returns the vendor's text."""

    provider = "acme"
    model_id = "echo"
    capabilities = LLMCapabilities()

    def __init__(self, vendor: VendorServer) -> None:
        self._vendor = vendor

    def check(self, tools: Sequence[Tool], structure: JSONObject | None) -> None: ...

    async def complete(self, request: LLMRequest) -> LLMResponse:
        answer = await post_json(self._asked(request))
        return LLMResponse(AssistantMessage(str(answer["text"])), TokenUsage(1, 1, 2))

    def stream(self, request: LLMRequest) -> LLMStreamResult:
        return LLMStreamResult(self._parts(request))

    async def _parts(self, request: LLMRequest) -> AsyncGenerator[StreamEvent | LLMResponse, None]:
        text = ""
        async with aclosing(stream_events(self._asked(request))) as events:
            async for event in events:
                text += str(event.data["text"])
                yield text_delta(str(event.data["text"]))
        yield LLMResponse(AssistantMessage(text), TokenUsage(1, 1, 2))

    def _asked(self, request: LLMRequest) -> VendorRequest:
        config = request.config or ProviderConfig()
        return VendorRequest(self.provider, self._vendor.url, {}, config, secrets=["sk-canary"])


class Recorded(RetryStrategy):
    """Does what another strategy says, without its waits, which are kept."""

    def __init__(self, strategy: RetryStrategy) -> None:
        self._strategy = strategy
        self.errors: list[UPPError] = []
        self.waits: list[timedelta | None] = []
        self.sent = 0
        self.succeeded = 0

    def on_retry(self, error: UPPError, attempt: int) -> timedelta | None:
        wait = self._strategy.on_retry(error, attempt)
        self.errors.append(error)
        self.waits.append(wait)
        return None if wait is None else timedelta(0)

    def before_request(self) -> timedelta:
        self.sent += 1
        return timedelta(0)

    def reset(self) -> None:
        self.succeeded += 1


@pytest.fixture
async def vendor() -> AsyncGenerator[VendorServer, None]:
    async with VendorServer() as server:
        yield server


@pytest.fixture
def model(vendor: VendorServer) -> BoundLLMModel:
    return EchoModel(vendor)


def asked(retry: RetryStrategy | None, retry_after_max: timedelta | None = None) -> LLMRequest:
    return LLMRequest([UserMessage("hi")], config=ProviderConfig(retry=retry, retry_after_max=retry_after_max))


def failing(status: int, body: JSONValue = None, **headers: str) -> Reply:
    return json_reply(body or {}, status, {name.replace("_", "-"): value for name, value in headers.items()})


GOOD = json_reply({"text": "hello"})
GOOD_STREAM = sse_reply('data: {"text": "hel"}\n\ndata: {"text": "lo"}\n\n')


def in_seconds(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [
        (lambda: "17", 17.0, 17.0),
        (lambda: "17.5", 17.5, 17.5),
        (lambda: in_seconds(100), 90.0, 100.0),
        (lambda: in_seconds(-100), 1.0, 1.0),
        (lambda: "1400000", 3600.0, 3600.0),
        (lambda: in_seconds(1_400_000), 3600.0, 3600.0),
        (lambda: "-5", 1.0, 1.0),
        (lambda: "garbage", 1.0, 1.0),
    ],
    ids=["seconds", "decimal", "date", "past", "days", "date of days", "negative", "garbage"],
)
@pytest.mark.parametrize("status", [429, 503, 529])
async def test_the_servers_wait_is_kept_within_bounds_and_never_shortens_the_backoff(
    vendor: VendorServer, model: BoundLLMModel, status: int, header: Callable[[], str], least: float, most: float
) -> None:
    vendor.replies(failing(status, retry_after=header()), GOOD)
    retry = Recorded(ExponentialBackoff(jitter=False))
    response = await complete_with_retries(model, asked(retry))
    assert response.message.text == "hello"
    (wait,) = retry.waits
    assert wait is not None
    assert timedelta(seconds=least) <= wait <= timedelta(seconds=most)


async def test_the_longest_wait_can_be_configured(vendor: VendorServer, model: BoundLLMModel) -> None:
    vendor.replies(failing(429, retry_after="1400000"), GOOD)
    retry = Recorded(RetryAfterStrategy())
    await complete_with_retries(model, asked(retry, retry_after_max=timedelta(seconds=20)))
    assert retry.waits == [timedelta(seconds=20)]


@pytest.mark.parametrize(
    ("header", "wait"), [("7", 7), ("-5", 0), ("garbage", 5)], ids=["seconds", "negative", "garbage"]
)
async def test_the_servers_wait_or_the_fallback_is_what_retry_after_waits(
    vendor: VendorServer, model: BoundLLMModel, header: str, wait: float
) -> None:
    vendor.replies(failing(429, retry_after=header), failing(429), GOOD)
    retry = Recorded(RetryAfterStrategy())
    await complete_with_retries(model, asked(retry))
    assert retry.waits == [timedelta(seconds=wait), timedelta(seconds=5)]


async def test_a_hundred_rate_limits_are_outwaited_with_growing_gaps(
    vendor: VendorServer, model: BoundLLMModel
) -> None:
    vendor.replies(*[failing(429)] * 100, GOOD)
    retry = Recorded(ExponentialBackoff(100))
    await complete_with_retries(model, asked(retry))
    assert len(vendor.received) == 101
    for number, wait in enumerate(retry.waits):
        middle = min(2.0**number, 30.0)
        assert wait is not None
        assert timedelta(seconds=middle * 0.5) - timedelta(milliseconds=1) <= wait <= timedelta(seconds=middle * 1.5)
    assert len(set(retry.waits)) > 50


FAILURES: list[tuple[str, Reply, ErrorCode]] = [
    ("408", failing(408), ErrorCode.TIMEOUT),
    ("409", failing(409, {"error": {"message": "the name is taken"}}), ErrorCode.INVALID_REQUEST),
    ("409 lock", failing(409, {"error": {"message": "could not get the lock"}}), ErrorCode.PROVIDER_ERROR),
    ("425", failing(425), ErrorCode.PROVIDER_ERROR),
    ("429", failing(429), ErrorCode.RATE_LIMITED),
    ("429 quota", failing(429, {"error": {"code": "insufficient_quota"}}), ErrorCode.QUOTA_EXCEEDED),
    *((str(status), failing(status), ErrorCode.PROVIDER_ERROR) for status in (500, 502, 503, 504, 529)),
    ("400", failing(400), ErrorCode.INVALID_REQUEST),
    ("400 context", failing(400, {"message": "prompt is too long"}), ErrorCode.CONTEXT_LENGTH_EXCEEDED),
    ("400 filter", failing(400, {"error": {"code": "content_filter"}}), ErrorCode.CONTENT_FILTERED),
    ("401", failing(401), ErrorCode.AUTHENTICATION_FAILED),
    ("403", failing(403), ErrorCode.AUTHENTICATION_FAILED),
    ("404", failing(404), ErrorCode.MODEL_NOT_FOUND),
    ("413", failing(413), ErrorCode.CONTEXT_LENGTH_EXCEEDED),
    ("422", failing(422), ErrorCode.INVALID_REQUEST),
    ("redirect", Reply(307, {"location": "https://other.example"}), ErrorCode.INVALID_REQUEST),
    ("not json", Reply(200, {}, [b"<html>"]), ErrorCode.INVALID_RESPONSE),
    ("cut", Reply(pieces=[CUT]), ErrorCode.NETWORK_ERROR),
]


@pytest.mark.parametrize(("reply", "code"), [case[1:] for case in FAILURES], ids=[case[0] for case in FAILURES])
@pytest.mark.parametrize("streamed", [False, True], ids=["complete", "stream"])
async def test_what_may_pass_is_tried_again_and_nothing_else(
    vendor: VendorServer, model: BoundLLMModel, reply: Reply, code: ErrorCode, streamed: bool
) -> None:
    vendor.replies(reply, GOOD_STREAM if streamed else GOOD)
    retry = Recorded(ExponentialBackoff())
    call = stream_with_retries(model, asked(retry)).response if streamed else None
    try:
        response = await (call() if call else complete_with_retries(model, asked(retry)))
        assert response.message.text == "hello"
        passed = True
    except UPPError:
        passed = False
    assert [error.code for error in retry.errors] == [code]
    assert passed == (code in RETRYABLE_CODES)
    assert len(vendor.received) == (2 if passed else 1)
    assert retry.succeeded == int(passed)


async def test_the_last_failure_is_raised_when_the_attempts_are_used_up(
    vendor: VendorServer, model: BoundLLMModel
) -> None:
    vendor.replies(failing(503), failing(500), failing(502, {"message": "the last"}))
    retry = Recorded(ExponentialBackoff(2))
    with pytest.raises(UPPError, match="the last"):
        await complete_with_retries(model, asked(retry))
    assert (retry.sent, len(vendor.received)) == (3, 3)


async def test_nothing_is_tried_again_by_default(vendor: VendorServer, model: BoundLLMModel) -> None:
    vendor.replies(failing(503), GOOD)
    with pytest.raises(UPPError):
        await complete_with_retries(model, LLMRequest([UserMessage("hi")]))
    assert len(vendor.received) == 1


async def test_a_stream_is_tried_again_before_its_first_event(vendor: VendorServer, model: BoundLLMModel) -> None:
    vendor.replies(failing(529), sse_reply("").then(CUT), Reply(pieces=[CUT]), GOOD_STREAM)
    retry = Recorded(ExponentialBackoff())
    stream = stream_with_retries(model, asked(retry))
    events = [event async for event in stream]
    assert [event.delta.text for event in events] == ["hel", "lo"]
    assert (await stream.response()).message.text == "hello"
    assert len(vendor.received) == 4


async def test_a_stream_is_not_tried_again_after_its_first_event(vendor: VendorServer, model: BoundLLMModel) -> None:
    vendor.replies(sse_reply('data: {"text": "hel"}\n\n').then(CUT), GOOD_STREAM)
    retry = Recorded(ExponentialBackoff())
    stream = stream_with_retries(model, asked(retry))
    assert (await anext(stream)).delta.text == "hel"
    with pytest.raises(UPPError, match="NETWORK_ERROR"):
        await anext(stream)
    assert (retry.errors, len(vendor.received)) == ([], 1)


async def test_a_closed_stream_closes_its_connection(vendor: VendorServer, model: BoundLLMModel) -> None:
    vendor.replies(GOOD_STREAM.then(60.0))
    stream = stream_with_retries(model, asked(None))
    await anext(stream)
    await stream.aclose()
    await vendor.hung_up()


async def test_a_stream_that_is_not_read_sends_nothing(vendor: VendorServer, model: BoundLLMModel) -> None:
    await stream_with_retries(model, asked(None)).aclose()
    assert vendor.connections == 0


async def test_a_cancelled_call_stops_trying(vendor: VendorServer, model: BoundLLMModel) -> None:
    vendor.replies(failing(429, retry_after="1000"))
    task = asyncio.create_task(complete_with_retries(model, asked(ExponentialBackoff())))
    await vendor.asked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(vendor.received) == 1


async def test_calls_at_once_go_through_a_bucket_in_order(vendor: VendorServer, model: BoundLLMModel) -> None:
    """The second call of a bucket with one token waits for the next, and no call starves."""
    vendor.replies(GOOD)
    bucket = TokenBucket(1, 50)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await asyncio.gather(*(complete_with_retries(model, asked(bucket)) for _ in range(5)))
    assert loop.time() - begun >= 4 / 50
    assert len(vendor.received) == 5


SLOW_DOWN = UPPError("slow down", ErrorCode.RATE_LIMITED, retry_after=timedelta(hours=1))


async def first_wait(attempts: Attempts) -> timedelta:
    await attempts.begin()
    return attempts.failed(SLOW_DOWN)


@pytest.mark.parametrize("request_", [LLMRequest([]), asked(None)])
async def test_a_request_without_a_strategy_gives_up_at_once(request_: LLMRequest) -> None:
    with pytest.raises(UPPError, match="slow down"):
        await first_wait(Attempts(request_))


async def test_a_strategy_of_the_request_goes_before_the_default() -> None:
    chosen, by_default = RetryAfterStrategy(), NoRetry()
    assert await first_wait(Attempts(asked(chosen), by_default=by_default)) == timedelta(hours=1)
    assert await first_wait(Attempts(asked(None), by_default=chosen)) == timedelta(hours=1)


async def test_no_wait_is_longer_than_the_caller_can_wait() -> None:
    """A durable run waits two minutes at most, whatever the server asks."""
    longest = timedelta(minutes=2)
    assert await first_wait(Attempts(asked(RetryAfterStrategy()), longest_wait=longest)) == longest


async def test_each_request_has_its_own_fork() -> None:
    """What one request was told by its server is not another's."""
    strategy = RetryAfterStrategy()
    strategy.set_retry_after(timedelta(seconds=1))
    assert await first_wait(Attempts(asked(strategy))) == timedelta(hours=1)
