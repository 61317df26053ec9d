"""Checks 44 to 49 of UAMP 1.0's events: how a response goes on, and that it ends once."""

from __future__ import annotations

from tests.conformance.test_uamp_events import TOOL
from tests.conformance.test_uamp_sessions import held
from tests.conformance.uamp_agents import MIRROR, call, plan
from tests.conformance.uamp_client import TERMINAL, Line, text_of
from tests.conformance.uamp_server import UampServer


async def test_check_44_a_response_is_created_before_its_deltas(line: Line) -> None:
    """It is the first of its events; whoever asks is told which response it is."""
    talk = await line.open()
    answer = await talk.ask("one two three four")
    assert answer.types[0] == "response.created"
    assert answer.types.count("response.created") == 1
    assert answer.types[-1] == "response.done"
    assert answer.types.count("response.delta") >= 4
    assert answer.id == answer.done["id"]


async def test_check_45_deltas_are_the_output(line: Line) -> None:
    """Put together they are the text of response.done, also around tools."""
    talk = await line.open()
    assert (await talk.ask("one two  three\n four")).text == "echo: one two  three\n four"
    answer = await talk.ask(
        plan({"say": "Let me look.", "calls": [call("weather", city="Oslo")]}, {"say": " It is sunny."})
    )
    assert answer.text == answer.told == "Let me look. It is sunny."
    assert answer.done["status"] == "completed"
    assert [item["type"] for item in answer.done["output"]] == ["text"]


async def test_check_46_a_response_ends_once_and_nothing_comes_after_it(uamp: UampServer, line: Line) -> None:
    """Whichever way it ends."""
    talk = await line.open()
    await talk.ask("one")
    await talk.ask(plan({"say": "half", "fail": "invalid_request"}))
    response, at = await held(talk)
    await talk.send("response.cancel", response_id=response)
    await talk.end_of(response)
    uamp.open_gate(at)
    await talk.ask("two")
    await talk.pause()
    ends: dict[str, str] = {}
    for event in talk.heard:
        if "response_id" in event:
            assert event["response_id"] not in ends, f"after its end: {event}"
            if event["type"] in TERMINAL:
                ends[event["response_id"]] = event["type"]
    assert [*ends.values()] == ["response.done", "response.error", "response.cancelled", "response.done"]


async def test_check_47_what_a_response_does_otherwise_counts_once(line: Line) -> None:
    """Instructions, tools and form of one response; the next is the session's again."""
    talk = await line.open(config={"instructions": "Be long.", "tools": [TOOL]})
    overrides = {"instructions": "Be brief.", "tools": [], "modalities": ["text"]}
    given = (await talk.ask(MIRROR, response=overrides, response_format={"type": "json_object"})).json
    assert given["system"].endswith("Be brief.")
    assert "pick_color" not in [tool["name"] for tool in given["tools"]]
    later = (await talk.ask(MIRROR)).json
    assert later["system"].endswith("Be long.")
    assert "pick_color" in [tool["name"] for tool in later["tools"]]
    wrong = await talk.send("response.create", response={"modalities": ["smell"]})
    assert (await talk.refusal(wrong)).code == "unsupported_modality"
    assert (await talk.ask("still here")).text == "echo: still here"


async def test_check_48_a_second_response_is_refused_while_one_is_made(uamp: UampServer, line: Line) -> None:
    """Its inputs wait for the next one; no deltas are mixed."""
    talk = await line.open()
    response, at = await held(talk)
    await talk.text("second")
    refused = await talk.send("response.create")
    refusal = await talk.refusal(refused)
    assert refusal.code == "response_in_progress"
    uamp.open_gate(at)
    assert (await talk.end_of(response)).text == "one after one"
    answer = await talk.ask()
    assert answer.text == "echo: second"
    assert talk.types.count("response.created") == 2


async def test_check_49_a_cancelled_response_tells_what_was_said(line: Line) -> None:
    """Without an id it is the one that is made; the conversation goes on."""
    talk = await line.open()
    response, _ = await held(talk)
    await talk.send("response.cancel")
    answer = await talk.end_of(response)
    assert answer.end["type"] == "response.cancelled"
    assert answer.told == "one "
    assert text_of(answer.end["partial_output"]) == answer.told
    assert "response.done" not in answer.types
    assert (await talk.ask("go on")).text == "echo: go on"
