"""Checks 57 to 66 of UAMP 1.0's events: tools that the client runs, and those that the server runs."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.conformance.uamp_agents import call, plan
from tests.conformance.uamp_client import Line, Talk
from tests.conformance.uamp_server import UampServer, new_gate


def tool(name: str, **properties: str) -> dict[str, Any]:
    """A tool of the client's, by the types of its arguments."""
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    return {"type": "function", "function": {"name": name, "description": f"Run {name}.", "parameters": schema}}


TOOLS = [tool("pick_color", of="string"), tool("measure", size="number")]


async def asking(line: Line) -> Talk:
    """A session whose client has tools."""
    return await line.open(config={"tools": TOOLS})


def given_to_model(answer: Any) -> list[dict[str, Any]]:
    """The results that the model was given, in what a mirror says."""
    return [result for message in answer["messages"] for result in message.get("results", ())]


async def test_check_57_a_clients_tool_is_called_with_whole_arguments(line: Line) -> None:
    """They are JSON text, complete; each call has an id of its own."""
    talk = await asking(line)
    response = await talk.begin(
        plan({"calls": [call("pick_color", "c1", of="the wall"), call("measure", "c2", size=2)]})
    )
    calls = {event["call_id"]: event for event in (await talk.hear("tool.call"), await talk.hear("tool.call"))}
    assert len(calls) == 2
    told = {event["name"]: json.loads(event["arguments"]) for event in calls.values()}
    assert told == {"pick_color": {"of": "the wall"}, "measure": {"size": 2}}
    assert all(event["response_id"] == response for event in calls.values())
    await talk.send("response.cancel")
    assert (await talk.end_of(response)).end["type"] == "response.cancelled"


async def test_check_58_a_result_goes_on_in_the_same_response(line: Line) -> None:
    """There is one response.created, and one end."""
    talk = await asking(line)
    response = await talk.begin(plan({"say": "well, ", "calls": [call("pick_color", of="it")]}, {"say": "blue it is"}))
    asked = await talk.hear("tool.call")
    await talk.send("tool.result", call_id=asked["call_id"], result=json.dumps({"color": "blue"}))
    answer = await talk.end_of(response)
    assert answer.told == "well, blue it is"
    assert answer.text == "well, blue it is"
    assert talk.types.count("response.created") == 1
    assert talk.types.count("response.done") == 1
    assert talk.types.index("tool.call") < talk.types.index("response.done")


async def test_check_59_parallel_calls_wait_for_both_in_any_order(line: Line) -> None:
    """The model goes on once it has both results, each with its call."""
    for order in ((0, 1), (1, 0)):
        talk = await asking(line)
        calls = [call("pick_color", "a", of="x"), call("measure", "b", size=1)]
        response = await talk.begin(plan({"calls": calls}, {"say": "both", "calls": []}))
        asked = [await talk.hear("tool.call"), await talk.hear("tool.call")]
        for place in order:
            await talk.pause()
            assert "response.done" not in talk.types
            name = asked[place]["name"]
            await talk.send("tool.result", call_id=asked[place]["call_id"], result=json.dumps(f"of {name}"))
        assert (await talk.end_of(response)).text == "both"
        results = {one["call_id"]: one["result"] for one in given_to_model((await talk.ask("mirror")).json)}
        assert results == {"a": "of pick_color", "b": "of measure"}


async def test_check_60_an_error_reaches_the_model(line: Line) -> None:
    """As one: with its text, and told to be one."""
    talk = await asking(line)
    response = await talk.begin(plan({"calls": [call("pick_color", "e1", of="x")]}, {"say": "oh"}))
    asked = await talk.hear("tool.call")
    await talk.send("tool.result", call_id=asked["call_id"], result="the user is away", is_error=True)
    assert (await talk.end_of(response)).text == "oh"
    (result,) = given_to_model((await talk.ask("mirror")).json)
    assert (result["call_id"], result["is_error"]) == ("e1", True)
    assert "the user is away" in result["result"]


async def test_check_61_an_unknown_call_is_an_error_and_the_run_still_waits(line: Line) -> None:
    """The right result is taken after it."""
    talk = await asking(line)
    response = await talk.begin(plan({"calls": [call("pick_color", of="x")]}, {"say": "thanks"}))
    asked = await talk.hear("tool.call")
    wrong = await talk.send("tool.result", call_id="call_nobody", result='"x"')
    assert (await talk.refusal(wrong)).code == "unknown_call_id"
    await talk.pause()
    assert "response.done" not in talk.types
    await talk.send("tool.result", call_id=asked["call_id"], result='"red"')
    assert (await talk.end_of(response)).text == "thanks"


async def test_check_62_a_second_result_is_ignored(line: Line) -> None:
    """At once, and when the response is over; the first one counts."""
    talk = await asking(line)
    response = await talk.begin(
        plan({"calls": [call("pick_color", "a", of="x"), call("measure", "b", size=1)]}, {"say": "thanks"})
    )
    asked = {event["name"]: event["call_id"] for event in (await talk.hear("tool.call"), await talk.hear("tool.call"))}
    for color in ("red", "green"):
        await talk.send("tool.result", call_id=asked["pick_color"], result=json.dumps(color))
    await talk.send("tool.result", call_id=asked["measure"], result="1")
    assert (await talk.end_of(response)).text == "thanks"
    await talk.send("tool.result", call_id=asked["pick_color"], result='"blue"')
    await talk.pause()
    assert "response.error" not in talk.types
    results = {one["call_id"]: one["result"] for one in given_to_model((await talk.ask("mirror")).json)}
    assert results["a"] == "red"


async def test_check_63_a_worker_that_restarts_between_call_and_result_loses_nothing(
    line: Line, uamp: UampServer
) -> None:
    """It is killed while the run waits; another one goes on with the result."""
    talk = await asking(line)
    response = await talk.begin(plan({"say": "one, ", "calls": [call("pick_color", of="x")]}, {"say": "two"}))
    asked = await talk.hear("tool.call")
    uamp.worker.kill()
    await talk.send("tool.result", call_id=asked["call_id"], result='"red"')
    uamp.worker = await asyncio.to_thread(uamp.new_worker().wait_ready)
    answer = await talk.end_of(response)
    assert answer.told == answer.text == "one, two"
    assert talk.types.count("tool.call") == 1


async def test_check_64_who_comes_back_is_asked_again(line: Line, uamp: UampServer) -> None:
    """The client is cut off while it runs the tool; on a new connection it is asked with the same id, and answers."""
    talk = await asking(line)
    response = await talk.begin(plan({"say": "one, ", "calls": [call("pick_color", of="x")]}, {"say": "two"}))
    asked = await talk.hear("tool.call")
    await line.abort()
    async with uamp.line(line.kind) as other:
        again = await other.open(config={"id": talk.id})
        assert again.id == talk.id
        event = await other.wait(lambda told: told["type"] == "tool.call")
        assert {name: event[name] for name in ("call_id", "name", "arguments", "response_id")} == {
            name: asked[name] for name in ("call_id", "name", "arguments", "response_id")
        }
        await again.send("tool.result", call_id=asked["call_id"], result='"red"')
        answer = await again.end_of(response)
        assert answer.text == "one, two"
        await again.pause()
        assert again.types.count("tool.call") == again.types.count("response.done") == 1


async def test_check_65_a_servers_tool_is_told_of(line: Line) -> None:
    """The call in fragments, the result, and that it is over; one that fails says so."""
    talk = await line.open()
    calls = [call("weather", "w1", city="Rome"), call("failing", "f1", reason="no luck")]
    answer = await talk.ask(plan({"calls": calls}, {"say": "so much for that"}))
    pieces: dict[str, str] = {}
    for delta in answer.deltas:
        if delta["type"] == "tool_call":
            asked = delta["tool_call"]
            assert asked["name"] == {"w1": "weather", "f1": "failing"}[asked["id"]]
            pieces[asked["id"]] = pieces.get(asked["id"], "") + asked["arguments"]
    assert {ident: json.loads(text) for ident, text in pieces.items()} == {
        "w1": {"city": "Rome"}, "f1": {"reason": "no luck"},
    }  # fmt: skip
    results = {one["call_id"]: one for one in (d["tool_result"] for d in answer.deltas if d["type"] == "tool_result")}
    assert (results["w1"]["status"], results["f1"]["status"]) == ("success", "error")
    assert "sunny in Rome" in results["w1"]["result"]
    assert "no luck" in results["f1"]["result"]
    assert [event["call_id"] for event in talk.heard if event["type"] == "tool.call_done"].count("w1") == 1
    assert "tool.call" not in talk.types
    for ident in ("w1", "f1"):
        kinds = [kind for kind, one in told_of(talk) if one == ident]
        assert list(dict.fromkeys(kinds)) == ["tool_call", "tool_result", "tool.call_done"]


def told_of(talk: Talk) -> list[tuple[str, str]]:
    """What a session was told of calls, in order: what, and of which."""
    found: list[tuple[str, str]] = []
    for event in talk.heard:
        if event["type"] == "tool.call_done":
            found.append((event["type"], event["call_id"]))
        elif event["type"] == "response.delta" and event["delta"]["type"] == "tool_call":
            found.append(("tool_call", event["delta"]["tool_call"]["id"]))
        elif event["type"] == "response.delta" and event["delta"]["type"] == "tool_result":
            found.append(("tool_result", event["delta"]["tool_result"]["call_id"]))
    return found


async def test_check_66_a_cancel_ends_the_wait_for_a_result(line: Line) -> None:
    """At once; a result that comes after it is not an error, and the session goes on."""
    talk = await asking(line)
    response = await talk.begin(plan({"say": "one", "calls": [call("pick_color", of="x")]}, {"say": "two"}))
    asked = await talk.hear("tool.call")
    await talk.send("response.cancel")
    answer = await talk.end_of(response)
    assert answer.end["type"] == "response.cancelled"
    assert answer.end["partial_output"] == [{"type": "text", "text": "one"}]
    await talk.send("tool.result", call_id=asked["call_id"], result='"late"')
    await talk.pause()
    assert "response.error" not in talk.types
    assert (await talk.ask("next")).text == "echo: next"


async def test_check_66_calls_of_both_sides_go_on_together(line: Line, uamp: UampServer) -> None:
    """The server runs its own meanwhile, and the model goes on once all are done."""
    talk, name = await asking(line), new_gate()
    calls = [call("waiting", "s1", name=name), call("pick_color", "c1", of="x")]
    response = await talk.begin(plan({"calls": calls}, {"say": "all there"}))
    asked = await talk.hear("tool.call")
    assert asked["name"] == "pick_color"
    await talk.send("tool.result", call_id=asked["call_id"], result='"red"')
    await talk.pause()
    assert "response.done" not in talk.types
    uamp.open_gate(name)
    assert (await talk.end_of(response)).text == "all there"
