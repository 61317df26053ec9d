"""Frozen specs: equal for equal agents, and written as JSON without what is default."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.activities.convert import converter
from perdure.uap.spec import AgentSpec, Limits, StrategySpec, ToolSpec
from tests.unit.upp.strategies import json_objects, texts

specs = st.builds(
    AgentSpec,
    texts(),
    texts(),
    st.builds(StrategySpec, texts(), json_objects()),
    st.lists(
        st.builds(ToolSpec, texts(), texts(), st.none() | st.floats(0.001, 1e6), st.booleans()),
        max_size=3,
        unique_by=lambda tool: tool.name,
    ),
    st.builds(Limits, st.integers(1, 50_000), st.integers(1, 10**9), st.floats(1, 1e6), st.floats(1, 1e6)),
)


@given(specs)
def test_a_frozen_spec_is_read_back_equal(spec: AgentSpec) -> None:
    """What a run froze is what its last step sees."""
    assert converter.structure(converter.unstructure(spec), AgentSpec) == spec


@given(specs)
def test_each_tool_is_found_by_its_name(spec: AgentSpec) -> None:
    """And none by another."""
    assert [spec.tool(tool.name) for tool in spec.tools] == spec.tools
    assert spec.tool("no such tool, by this name") is None


def test_defaults_cost_no_history() -> None:
    """A spec of an agent that says nothing is its name and id."""
    assert converter.unstructure(AgentSpec("a", "b")) == {"name": "a", "id": "b"}


def test_a_spec_cannot_be_changed() -> None:
    """It is frozen when the run begins."""
    with pytest.raises(AttributeError):
        setattr(AgentSpec("a", "b"), "name", "c")  # noqa: B010 - what is tested
