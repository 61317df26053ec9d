"""What an agent can do, by what its worker registered."""

from __future__ import annotations

from perdure import agent
from perdure.activities.convert import converter
from perdure.protocols.uamp_events.capabilities import AudioCapabilities, Capabilities, output_modalities
from perdure.runtime.agent_capabilities import capabilities_of
from perdure.store.agents import AgentRow
from perdure.uap.agent import Agent
from perdure.upp import tool
from perdure.upp.json_value import JSONObject
from perdure.upp.providers import anthropic, scripted

REQUIRED = {"id", "provider", "modalities", "supports_streaming", "supports_thinking", "supports_caching"}


@tool
def search(query: str) -> str:
    """Search."""
    return query


def row_of(made: Agent) -> AgentRow:
    return AgentRow("helper", "id", "w", "q", converter.unstructure(made.spec()))


def test_30_the_six_are_always_there() -> None:
    """By the names of the specification; also of an agent that an older worker has registered."""
    specs: list[JSONObject] = [{}, {"name": "old", "tools": [{"name": "search"}]}]
    for spec in specs:
        told = capabilities_of(AgentRow("old", "id", "w", "q", spec)).to_json()
        assert set(told) >= REQUIRED
        assert (told["id"], told["provider"], told["modalities"]) == ("old", "perdure", ["text"])


def test_a_models_part_and_the_tools_are_told() -> None:
    found = capabilities_of(row_of(agent(model=anthropic("claude-sonnet-4-20250514"), tools=[search])))
    assert (found.id, found.provider) == ("claude-sonnet-4-20250514", "anthropic")
    assert found.modalities == ["text", "image", "file"]
    assert found.tools is not None
    assert found.tools.built_in_tools == ["search"]
    assert found.audio is None
    assert output_modalities(found) == ["text"]


def test_sound_is_taken_without_a_voice_and_given_with_one() -> None:
    """Without a voice backend audio is accepted as input and refused as output."""
    row = row_of(agent(model=scripted(["Hello."])))
    plain = capabilities_of(row)
    assert {"audio", "video"} <= set(plain.modalities)
    assert output_modalities(plain) == ["text", "image"]
    voiced = capabilities_of(row, voice=AudioCapabilities(output_formats=["pcm16"], supports_realtime=True))
    assert output_modalities(voiced) == ["text", "image", "audio"]
    assert voiced.audio is not None
    assert voiced.audio.input_formats
    assert Capabilities.model_validate(voiced.to_json()) == voiced
