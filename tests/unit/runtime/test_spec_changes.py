"""How what one run was frozen to differs from what the next one is."""

from __future__ import annotations

from perdure.runtime.threads.spec_changes import spec_changes
from perdure.upp.json_value import JSONObject

LOOK: JSONObject = {"name": "look"}
HEAR: JSONObject = {"name": "hear", "effect": "once"}


def test_equal_specs_differ_in_nothing() -> None:
    assert spec_changes({"name": "a", "tools": [LOOK]}, {"name": "a", "tools": [dict(LOOK)]}) == {}
    assert spec_changes({}, {}) == {}


def test_tools_are_told_by_name_and_other_members_by_value() -> None:
    """In another order they are the same tools."""
    before: JSONObject = {"name": "a", "tools": [LOOK, HEAR], "priced": True}
    after: JSONObject = {"name": "a", "tools": [{**HEAR, "effect": "none"}, {"name": "smell"}], "hooks": ["on_error"]}
    assert spec_changes(before, after) == {
        "tools": {"added": ["smell"], "removed": ["look"], "changed": ["hear"]},
        "priced": {"before": True, "after": None},
        "hooks": {"before": None, "after": ["on_error"]},
    }
    assert spec_changes(before, {**before, "tools": [HEAR, LOOK]}) == {}
