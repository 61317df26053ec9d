"""A plan as a model writes it: how it is asked for, and how sloppily written ones are read.

What is read is a list of `PlanStep`. Source: UAP-1.0 section 5.4.
"""

from __future__ import annotations

import json
import re

from perdure.uap.plan_steps import PlanStep, bad_plan, check_distinct, unused_id, without_dependencies
from perdure.upp.json_field import read_object
from perdure.upp.json_value import JSONObject, JSONValue, loads, well_formed

_OBJECT = re.compile(r'\{[ \t\r\n]*["}]')
_PATIENCE = 4
"""How often a text may be read over, counted in its length, in the search for a JSON object in it."""
_LINES = 64
"""By how much faster than reading the decoder counts lines; for each fault it counts those before it."""


def plan_schema(max_steps: int) -> JSONObject:
    """The JSON Schema by which a model is asked for a plan; OpenAI can enforce it.

    Enforced schemas know no optional properties, so a step without a tool has null there. There is no status: nothing
    of a new plan has been done.

    Args:
        max_steps: the most steps, at least 1.
    """
    text: JSONObject = {"type": "string"}
    properties: JSONObject = {
        "id": {"type": "string", "description": "A short id, another for each step, for example step-1."},
        "description": {"type": "string", "description": "What this step does."},
        "tool": {"type": ["string", "null"], "description": "The name of the tool to use, null for none."},
        "dependsOn": {"type": "array", "items": text, "description": "Ids of the steps to be completed before it."},
    }
    step = _closed_object(properties)
    return _closed_object({"steps": {"type": "array", "items": step, "maxItems": max_steps}})


def read_plan(data: JSONValue, max_steps: int) -> list[PlanStep]:
    """The steps of a plan as a model wrote it, in its order, all of them pending since none has run.

    Models are sloppy, so ids may be numbers, and what is absent or null is filled in: an id by its place,
    dependencies by none. Of a plan that is too long the first steps remain, without dependencies on what was cut.

    Args:
        data: `{"steps": [...]}`.
        max_steps: the most steps, at least 1.

    Raises:
        UPPError: INVALID_RESPONSE if it is no plan, or two steps have one id; the message names the place or the ids.
    """
    match data:
        case {"steps": list(items)}:
            pass
        case _:
            raise bad_plan('it must be an object with a list "steps"')
    steps = [_read_step(item, f"steps[{index}]") for index, item in enumerate(items[:max_steps])]
    taken = {step.id for step in steps}
    for place, step in enumerate(steps, 1):
        if not step.id:
            step.id = unused_id(f"step-{place}", taken)
            taken.add(step.id)
    cut = {_read_id(item.get("id")) for item in items[max_steps:] if isinstance(item, dict)}
    check_distinct(steps)
    return without_dependencies(steps, cut - taken)


def plan_from_text(text: str) -> JSONObject:
    """The first JSON object that stands in a text, as in `Here is the plan: {"steps": []}`.

    Raises:
        UPPError: INVALID_RESPONSE if there is none.
    """
    decoder = json.JSONDecoder()
    read = 0
    for start in (match.start() for match in _OBJECT.finditer(text)):
        if read > _PATIENCE * len(text):
            break
        try:
            end = decoder.raw_decode(text, start)[1]
            found = loads(text[start:end].encode("utf-8", "surrogatepass"))  # the decoder lets NaN pass
            return read_object(well_formed(found), "plan")
        except json.JSONDecodeError as error:
            read += error.pos - start + error.pos // _LINES
        except (ValueError, RecursionError):  # a number that is none, or too large; nested too deeply
            read += len(text) - start
    raise bad_plan(f"there is no JSON object in the text {text!r:.80}")


def _closed_object(properties: JSONObject) -> JSONObject:
    required: list[JSONValue] = [*properties]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _read_step(value: JSONValue, path: str) -> PlanStep:
    if not isinstance(value, dict):
        raise bad_plan(f"{path} must be an object")
    description, tool, depends_on = (value.get(name) for name in ("description", "tool", "dependsOn"))
    if not isinstance(description, str):
        raise bad_plan(f"{path}.description must be a string")
    if tool is not None and not isinstance(tool, str):
        raise bad_plan(f"{path}.tool must be a string or null")
    if depends_on is not None and not isinstance(depends_on, list):
        raise bad_plan(f"{path}.dependsOn must be a list of ids")
    needed = [_read_id(item) for item in depends_on or ()]
    own_id = _read_id(value.get("id"))
    if own_id is None or None in needed:
        raise bad_plan(f"{path}: an id must be a string")
    return PlanStep(own_id, description, tool or None, [id_ for id_ in needed if id_])


def _read_id(value: JSONValue) -> str | None:
    """The id that a model meant: empty if it gave none, None if that cannot be an id."""
    match value:
        case None:
            return ""
        case bool():
            return None
        case str() | int():
            return str(value)
        case _:
            return None
