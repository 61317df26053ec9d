"""Responses in OpenAI's form, read by the `openai` package's own types; facts B, S and T of the reference."""

from __future__ import annotations

from typing import Any

import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types import Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from perdure.protocols.openai_chat.call_ids import call_id_of
from perdure.protocols.openai_chat.chat_flow import ChatFlow, finish_reason
from perdure.protocols.openai_chat.completion import CompletionHead, model_body
from perdure.protocols.openai_chat.faults import ChatFault
from perdure.protocols.uamp_events.response_flow import ResponseFlow
from perdure.protocols.uamp_events.server_events import ResponseDone
from perdure.uap.ids import wait_id
from perdure.upp.json_value import JSONObject
from tests.unit.protocols.uamp_events.logged_run import LoggedRun, Row

HEAD = CompletionHead("chatcmpl-1", "echo-agent", 1704067200)
TOKYO = ("c1", "search", '{"city":"Tokyo"}')
OSLO = ("c2", "search", '{"city":"Oslo"}')


class Told:
    """Rows of a run, told as chunks."""

    def __init__(self, rows: list[Row], *client_tools: str, streams: bool = True) -> None:
        self.response = ResponseFlow("resp_1", "run-1", "s", client_tools=client_tools)
        self.flow = ChatFlow(HEAD, streams=streams)
        self.chunks: list[JSONObject] = []
        for row in rows:
            events = self.response.take(row)
            self.chunks += self.flow.take(events, self.response.text)
            if self.response.waits_for_client:
                self.chunks += self.flow.leave_to_client(self.response.reminders(), self.response.open_calls)
            for event in events:
                if isinstance(event, ResponseDone) and event.response.usage is not None:
                    self.flow.usage = event.response.usage

    def read_chunks(self) -> list[ChatCompletionChunk]:
        """The chunks, as the package reads and checks them."""
        return [ChatCompletionChunk.model_validate(chunk, strict=False) for chunk in self.chunks]

    def read(self) -> ChatCompletion:
        """The whole, as the package reads and checks it."""
        return ChatCompletion.model_validate(self.flow.completion())


def spoken() -> Told:
    log = LoggedRun()
    return Told([log.of_run("run.started"), *log.says("The ", "weather ", "is fine"), log.completed()])


def test_b1_a_completion() -> None:
    completion = spoken().read()
    (choice,) = completion.choices
    assert (completion.object, completion.id, completion.model) == ("chat.completion", "chatcmpl-1", "echo-agent")
    assert (choice.message.role, choice.message.content) == ("assistant", "The weather is fine")
    assert (choice.finish_reason, choice.message.tool_calls) == ("stop", None)
    usage = completion.usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (25, 12, 37)
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens == 15


def test_s1_s2_s4_chunks() -> None:
    chunks = spoken().read_chunks()
    assert len(chunks) > 2
    assert {(chunk.id, chunk.model, chunk.created, chunk.object) for chunk in chunks} == {
        ("chatcmpl-1", "echo-agent", 1704067200, "chat.completion.chunk")
    }
    assert all(len(chunk.choices) == 1 and chunk.choices[0].index == 0 for chunk in chunks)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "The weather is fine"
    assert [chunk.choices[0].finish_reason for chunk in chunks][-2:] == [None, "stop"]


def test_usage_is_told_in_a_chunk_of_its_own() -> None:
    chunk = ChatCompletionChunk.model_validate(spoken().flow.usage_chunk())
    assert chunk.choices == []
    assert chunk.usage is not None
    assert chunk.usage.total_tokens == 37


def called() -> Told:
    log = LoggedRun()
    return Told([*log.calls(TOKYO, OSLO), log.waits_for(1), log.waits_for(0)], "search")


def test_t1_t3_t8_calls_of_the_clients_end_the_completion() -> None:
    completion = called().read()
    (choice,) = completion.choices
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    calls = choice.message.tool_calls or []
    told = [(call.id, call.function.name, call.function.arguments) for call in calls if call.type == "function"]
    assert told == [(call_id_of(wait_id("m1", place)), *call[1:]) for place, call in enumerate((TOKYO, OSLO))]


def test_s3_t4_parallel_calls_have_their_own_index() -> None:
    chunks = called().read_chunks()
    deltas = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    assert [delta.index for delta in deltas] == [0, 1]
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_the_completion_waits_for_all_calls_of_the_message() -> None:
    log = LoggedRun()
    one = Told([*log.calls(TOKYO, OSLO), log.waits_for(1)], "search")
    assert not one.flow.is_over


def test_the_completion_waits_for_the_servers_own_tools() -> None:
    log = LoggedRun()
    mixed = [*log.calls(TOKYO, ("c2", "ask", '{"city":"Oslo"}')), log.waits_for(1)]
    assert not Told(mixed, "ask").flow.is_over
    over = Told([*mixed, log.returns("c1", "22")], "ask")
    assert over.flow.is_over
    assert [call.id for call in over.read().choices[0].message.tool_calls or ()] == [call_id_of(wait_id("m1", 1))]


def test_t5_without_calls_there_is_no_list_of_them() -> None:
    body: Any = spoken().flow.completion()
    assert "tool_calls" not in body["choices"][0]["message"]


@pytest.mark.parametrize("make", [spoken, called])
def test_the_packages_own_stream_state_reads_the_chunks(make: Any) -> None:
    told: Told = make()
    state: Any = ChatCompletionStreamState(input_tools=[])
    for chunk in [*told.read_chunks(), ChatCompletionChunk.model_validate(told.flow.usage_chunk())]:
        state.handle_chunk(chunk)
    whole, choice = state.get_final_completion(), told.read().choices[0]
    assert (whole.choices[0].message.content or None) == choice.message.content
    assert whole.choices[0].finish_reason == choice.finish_reason
    ids = [call.id for call in whole.choices[0].message.tool_calls or ()]
    assert ids == [call.id for call in choice.message.tool_calls or ()]


def test_the_agents_own_tools_are_not_told() -> None:
    log = LoggedRun()
    told = Told([*log.calls(TOKYO), log.returns("c1", "22"), *log.says("22"), log.completed()])
    assert all(chunk.choices[0].delta.tool_calls is None for chunk in told.read_chunks())
    assert told.read().choices[0].message.content == "22"


def test_a_failed_run_is_an_error_in_openais_form() -> None:
    log = LoggedRun()
    error: JSONObject = {"type": "ModelError", "message": "slow down", "code": "RATE_LIMITED"}
    with pytest.raises(ChatFault) as caught:
        Told([*log.says("x"), log.of_run("run.failed", error=error)])
    body: Any = caught.value.to_json()
    assert (caught.value.status, body["error"]["type"], body["error"]["message"]) == (
        429,
        "rate_limit_error",
        "slow down",
    )


def test_an_agent_is_a_model() -> None:
    assert Model.model_validate(model_body("a", created=1)).id == "a"


def restarted(text: str, *, streams: bool) -> Told:
    log = LoggedRun()
    begun_anew = log.of_run("message.reset", message="m1", attempt=2)
    return Told([*log.says("The wea"), begun_anew, *log.says(*text, message="m1"), log.completed()], streams=streams)


def test_an_answer_that_begins_anew_and_says_the_same_is_told_once() -> None:
    chunks = restarted("The weather is fine", streams=True).read_chunks()
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "The weather is fine"


@pytest.mark.parametrize("text", ["It rains", "The"])
def test_what_was_told_and_does_not_count_any_more_ends_a_stream(text: str) -> None:
    with pytest.raises(ChatFault, match="Idempotency-Key") as caught:
        restarted(text, streams=True)
    assert (caught.value.status, caught.value.code) == (500, "answer_restarted")
    assert restarted(text, streams=False).read().choices[0].message.content == text


@pytest.mark.parametrize(
    ("stop", "reason"),
    [("end_turn", "stop"), ("max_tokens", "length"), ("content_filter", "content_filter"), ("other", "stop")],
)
def test_why_the_model_stopped(stop: str, reason: str) -> None:
    assert finish_reason(stop) == reason
