"""Hypothesis strategies of UPP's values. Text holds NUL, lone surrogates and characters of four bytes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial

from hypothesis import strategies as st

from perdure.upp.content import (
    AudioBlock,
    BinaryBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ReasoningBlock,
    TextBlock,
    VideoBlock,
)
from perdure.upp.errors import ErrorCode, Modality, UPPError
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.media_source import Base64Source, BytesSource, TextSource, UrlSource
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.stream import EventDelta, StreamEvent, StreamEventType
from perdure.upp.thread import Thread
from perdure.upp.tool_call import ToolCall, ToolExecution, ToolResult
from perdure.upp.turn import Turn
from perdure.upp.usage import CycleUsage, TokenUsage

HARD_NUMBERS = (2**53 + 1, -(2**63), 2**64, 10**400, -0.0, 5e-324, 1.7976931348623157e308, 0.1)
HARD_CHARACTERS = '\x00\ud83c\udf78\udfff\ud800\U0001f378\U0010ffff\u2028"\\\x7f\ufffd'


def texts(max_size: int = 12) -> st.SearchStrategy[str]:
    characters = st.sampled_from(HARD_CHARACTERS) | st.characters() | st.characters(categories=["Cs"])
    # Not st.text: it merges the alphabets, and hard characters then hardly ever come up.
    return st.lists(characters, max_size=max_size).map("".join)


def json_values(max_leaves: int = 8) -> st.SearchStrategy[JSONValue]:
    numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(HARD_NUMBERS)
    leaves = st.none() | st.booleans() | numbers | texts()
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(5), inner, max_size=3),
        max_leaves=max_leaves,
    )


def json_objects() -> st.SearchStrategy[JSONObject]:
    return st.dictionaries(texts(5), json_values(4), max_size=3)


def moments() -> st.SearchStrategy[datetime]:
    zones = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45)), timezone(timedelta(hours=-12))])
    return st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=zones)  # noqa: DTZ001  # zones are drawn


counts = partial(st.integers, 0, 10**12)
small_bytes = partial(st.binary, max_size=8)
durations = partial(st.floats, 0, 1e6)
base64_sources = st.builds(Base64Source, texts())
url_sources = st.builds(UrlSource, texts())
image_sources = base64_sources | url_sources | st.builds(BytesSource, small_bytes())
document_sources = base64_sources | url_sources | st.builds(TextSource, texts())
pixels = st.none() | st.integers(0, 10_000)

text_blocks = st.builds(TextBlock, texts())
reasoning_blocks = st.builds(ReasoningBlock, texts())
image_blocks = st.builds(ImageBlock, image_sources, texts(), pixels, pixels)
document_blocks = st.builds(DocumentBlock, document_sources, texts(), st.none() | texts())
audio_blocks = st.builds(AudioBlock, small_bytes(), texts(), st.none() | durations())
video_blocks = st.builds(VideoBlock, small_bytes(), texts(), st.none() | durations(), pixels, pixels)
binary_blocks = st.builds(BinaryBlock, small_bytes(), texts(), st.none() | json_objects())
user_blocks = text_blocks | image_blocks | document_blocks | audio_blocks | video_blocks | binary_blocks
assistant_blocks = text_blocks | reasoning_blocks | image_blocks | audio_blocks | video_blocks
content_blocks: st.SearchStrategy[ContentBlock] = user_blocks | reasoning_blocks

tool_calls = st.builds(ToolCall, texts(), texts(), json_values())
tool_results = st.builds(ToolResult, texts(), json_values(), st.booleans())
tool_executions = st.builds(
    ToolExecution, texts(), texts(), json_values(), json_values(), st.booleans(), counts(), st.none() | st.booleans()
)

metadata = st.none() | st.dictionaries(texts(5), json_objects(), max_size=2)
user_messages = st.builds(
    UserMessage, st.lists(user_blocks, max_size=3), id=texts(), timestamp=moments(), metadata=metadata
)
assistant_messages = st.builds(
    AssistantMessage,
    st.lists(assistant_blocks, max_size=3),
    st.none() | st.lists(tool_calls, max_size=2),
    id=texts(),
    timestamp=moments(),
    metadata=metadata,
)
tool_result_messages = st.builds(
    ToolResultMessage, st.lists(tool_results, max_size=3), id=texts(), timestamp=moments(), metadata=metadata
)
messages: st.SearchStrategy[Message] = user_messages | assistant_messages | tool_result_messages

cycle_usages = st.builds(CycleUsage, counts(), counts(), counts(), counts())
costs: st.SearchStrategy[Decimal] = st.decimals(0, 10**6, places=9)
usages = st.builds(
    TokenUsage, counts(), counts(), counts(), counts(), counts(), st.none() | st.lists(cycle_usages, max_size=3)
)
priced_usages = st.builds(TokenUsage, counts(), counts(), counts(), cost=st.none() | costs)
turns = st.builds(
    Turn,
    st.tuples(user_messages, tool_result_messages, assistant_messages),
    st.lists(tool_executions, max_size=2),
    usages,
    st.integers(1, 20),
    json_values(),
)
threads = st.builds(Thread, st.lists(messages, max_size=3), id=texts(), created_at=moments(), updated_at=moments())
event_deltas = st.builds(
    EventDelta,
    text=st.none() | texts(),
    data=st.none() | small_bytes(),
    tool_call_id=st.none() | texts(),
    tool_name=st.none() | texts(),
    arguments_json=st.none() | texts(),
    result=json_values(),
    is_error=st.none() | st.booleans(),
    timestamp=st.none() | counts(),
)
stream_events = st.builds(StreamEvent, st.sampled_from(StreamEventType), st.integers(0, 50), event_deltas)
upp_errors = st.builds(
    UPPError,
    texts(),
    st.sampled_from(ErrorCode),
    texts(),
    st.sampled_from(Modality),
    st.none() | st.integers(100, 599),
    st.none() | st.builds(ValueError, texts()),
    st.none() | st.integers(0, 10**7).map(lambda milliseconds: timedelta(milliseconds=milliseconds)),
)
