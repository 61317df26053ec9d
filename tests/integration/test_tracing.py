"""Traces: one tree from the caller to each model and tool call, whatever is replayed, restarted or sandboxed."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pytest

from perdure.runtime.trace_context import under
from tests.integration.api_server import ApiProcess
from tests.integration.collector import METRICS, Collector, Span, collecting, tree
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.stage_visits import APP as HOUSE
from tests.integration.stage_visits import visiting
from tests.integration.sub_agents import ask
from tests.integration.test_kills import finish, spec
from tests.integration.test_short import APP as SHORT
from tests.replay.playing import worker

APP = "tests.integration.sub_agents:app"
DEADLINE_S = 90
CHAT = "chat scripted"


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as started:
        yield started


def script(name: str) -> str:
    """Two tools, then two sub-agents at once: one with a tool, one whose strategy is the user's own."""
    tools = [{"tool": "note", "arguments": {"name": name, "key": key}} for key in "ab"]
    asked = [ask("explorer", name, [tools[0]], f"found {name}"), ask("loner", name, f"mine {name}")]
    return json.dumps({"name": name, "script": [tools, asked, f"done {name}"]})


async def whole(collector: Collector, trace: str, runs: int) -> list[Span]:
    """The spans of a trace, once so many runs of it are told."""

    async def told() -> list[Span] | None:
        spans = collector.of_trace(trace)
        roots = [span for span in spans if span.name.startswith("invoke_agent")]
        wanted = sum(int(span.values["perdure.steps"]) for span in roots)
        steps = sum(span.name.startswith("step ") for span in spans)
        return spans if len(roots) == runs and steps == wanted else None

    return await eventually(told, seconds=DEADLINE_S, what=f"{runs} runs of trace {trace}")


TREE = sorted(
    [
        ("invoke_agent chief", ""),
        *((f"step {number}", "invoke_agent chief") for number in (1, 2, 3)),
        *((CHAT, f"step {number}") for number in (1, 2, 3)),
        ("execute_tool note", "step 1"),
        ("execute_tool note", "step 1"),
        ("invoke_agent chief/explorer", "step 2"),
        ("step 1", "invoke_agent chief/explorer"),
        ("step 2", "invoke_agent chief/explorer"),
        (CHAT, "step 1"),
        (CHAT, "step 2"),
        ("execute_tool note", "step 1"),
        ("invoke_agent chief/loner", "step 2"),
        ("step 1", "invoke_agent chief/loner"),
        (CHAT, "step 1"),
    ]
)


@pytest.mark.parametrize("cached", ["0", "1000"])
async def test_s15_replays_send_no_span(stack: Stack, collector: Collector, cached: str) -> None:
    """The same tree whether each workflow task replays all or none; sub-agents in it, and a strategy of one's own."""
    name, trace = uuid.uuid4().hex, uuid.uuid4().hex
    async with (
        worker(stack, APP, PERDURE_MAX_CACHED_WORKFLOWS=cached, **collector.environment),
        stack.connect() as sessions,
    ):
        with under(f"00-{trace}-00f067aa0ba902b7-01"):
            handle = await sessions.submit("chief", script(name))
        assert (await handle.result()).response.text == f"done {name}"
        spans = await whole(collector, trace, 3)
    assert tree(spans) == TREE
    check_root(spans, handle.id, handle.session)
    check_calls(spans)
    assert all(span.began <= span.ended for span in spans)
    assert METRICS in collector.paths
    assert name.encode() not in b"".join(collector.bytes), "content"


def check_root(spans: list[Span], run: str, session: str) -> None:
    """The run's span stands under the caller's, and says what the run came to."""
    (root,) = [span for span in spans if span.name == "invoke_agent chief"]
    assert (root.parent, root.service, root.failed) == ("00f067aa0ba902b7", "perdure-worker", False)
    assert root.values["gen_ai.operation.name"] == "invoke_agent"
    assert root.values["gen_ai.conversation.id"] == session
    assert (root.values["perdure.run"], root.values["perdure.status"]) == (run, "completed")
    assert (root.values["perdure.steps"], root.values["perdure.model_calls"]) == (3, 3)


def check_calls(spans: list[Span]) -> None:
    """Names of the GenAI conventions, and no others for what they name."""
    chats = [span.values for span in spans if span.name == CHAT]
    assert {values["gen_ai.operation.name"] for values in chats} == {"chat"}
    assert {(values["gen_ai.provider.name"], values["gen_ai.request.model"]) for values in chats} == {
        ("scripted", "scripted")
    }
    assert all(
        values["gen_ai.usage.output_tokens"] >= 0 and values["gen_ai.response.finish_reasons"] for values in chats
    )
    tools = [span.values for span in spans if span.name == "execute_tool note"]
    assert {(values["gen_ai.operation.name"], values["gen_ai.tool.name"]) for values in tools} == {
        ("execute_tool", "note")
    }
    assert all(values["gen_ai.tool.call.id"].startswith("call_") for values in tools)


async def test_a_trace_goes_on_over_http_and_a_death(stack: Stack, collector: Collector) -> None:
    """From the caller's `traceparent` through the request and the inbox to calls of two workers, of which one was killed."""
    name, trace = uuid.uuid4().hex, uuid.uuid4().hex
    note = {"tool": "note", "arguments": {"name": name, "key": "a"}}
    text = json.dumps({"name": name, "script": [[note], "done"], "held": 1})
    api = ApiProcess(stack, **collector.environment).wait_ready()
    first = WorkerProcess(stack, APP, **collector.environment).wait_ready()
    try:
        async with api.client() as client:
            answer = await client.post(
                "/runs",
                json={"agent": "chief", "input": text},
                headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"},
            )
        assert answer.status_code == 202, answer.text
        run = answer.json()["run"]
        await stack.until_entries(name, "model", 2)

        async def first_step_told() -> bool:
            return "execute_tool note" in [span.name for span in collector.of_run(run)]

        await eventually(first_step_told, seconds=DEADLINE_S, what="the spans of the first step")
        first.kill()
        stack.release({"name": name})
        async with worker(stack, APP, **collector.environment), stack.connect() as sessions:
            assert (await (await sessions.run(run)).result()).response.text == "done"
            spans = await whole(collector, trace, 1)
    finally:
        first.kill()
        api.kill()
    assert tree(spans) == sorted(
        [
            ("POST /api/runs", ""),
            ("submit chief", "POST /api/runs"),
            ("invoke_agent chief", "submit chief"),
            ("step 1", "invoke_agent chief"),
            ("step 2", "invoke_agent chief"),
            (CHAT, "step 1"),
            ("execute_tool note", "step 1"),
            (CHAT, "step 2"),
        ]
    )
    (request,), (submit,) = (
        [span for span in spans if span.name == name] for name in ("POST /api/runs", "submit chief")
    )
    assert (request.service, request.parent, submit.service) == ("perdure-api", "00f067aa0ba902b7", "perdure-api")
    assert (request.values["http.route"], request.values["http.response.status_code"]) == ("/api/runs", 202)
    assert [span.values["perdure.attempt"] for span in spans if span.name == CHAT] == [1, 2]


async def test_a_stages_task_has_a_span_of_its_own(stack: Stack, collector: Collector) -> None:
    """It says what was called and where, and whether it failed; nothing of what was said."""
    async with worker(stack, HOUSE, **collector.environment), visiting(stack) as visit:
        await visit.call("add", by=987654321)
        await visit.call("stumble")

        async def told() -> list[Span] | None:
            found = [span for span in collector.spans if span.values.get("gen_ai.conversation.id") == visit.id]
            return found if len(found) == 2 else None

        spans = await eventually(told, seconds=DEADLINE_S, what="the spans of two tasks")
        await visit.executions()
    assert [(span.name, span.values["perdure.stage"], span.values.get("error.type")) for span in spans] == [
        ("execute_tool add", "hall", None),
        ("execute_tool stumble", "hall", "task_error"),
    ]
    assert "987654321" not in str([span.values for span in spans])


@pytest.mark.parametrize("agent", ["worker", "halfway"])
async def test_a_call_that_is_made_with_its_answer_has_a_span(stack: Stack, collector: Collector, agent: str) -> None:
    """One of its own, below the step, that begins when the answer's has ended."""
    values = spec(steps=1, calls=2, tool="none")
    async with worker(stack, SHORT, **collector.environment), stack.connect() as sessions:
        handle = await sessions.submit(agent, json.dumps(values))
        assert await finish(sessions, handle) == "completed"

        async def told() -> list[Span] | None:
            spans = collector.of_run(handle.id)
            return spans if any(span.name.startswith("invoke_agent") for span in spans) and len(spans) == 7 else None

        spans = await eventually(told, seconds=DEADLINE_S, what="the spans of the run")
    assert tree(spans) == sorted(
        [
            (f"invoke_agent {agent}", ""),
            *((f"step {number}", f"invoke_agent {agent}") for number in (1, 2)),
            *(("chat scripted", f"step {number}") for number in (1, 2)),
            *(("execute_tool none", "step 1") for _ in range(2)),
        ]
    )
    chat = min((span for span in spans if span.name == "chat scripted"), key=lambda span: span.began)
    tools = [span for span in spans if span.name == "execute_tool none"]
    assert all(chat.ended <= tool.began <= tool.ended for tool in tools)
