"""What Ollama is known to refuse of schemas, found when an agent is defined; schemas are never changed to fit.

Tools' schemas are read into a structure of Ollama's own and shown to the model; keywords that it does not know do no
harm there. A structured answer's schema becomes a grammar, which knows nearly all of JSON Schema, recursion too.
"""

from __future__ import annotations

from collections.abc import Iterator

from perdure.errors import InvalidInput
from perdure.upp.json_schema import check_schema, references, walk
from perdure.upp.json_value import JSONObject
from perdure.upp.providers._answer import refuse
from perdure.upp.providers.ollama.request import PROVIDER
from perdure.upp.tools import Tool


def check_tool(tool: Tool) -> None:
    """Raises UPPError INVALID_REQUEST if Ollama cannot read the tool's schema."""
    problem = next(_unreadable(tool.parameters), None)
    if problem is not None:
        raise refuse(f"tool '{tool.name}': {problem}", PROVIDER)


def check_structure(structure: JSONObject) -> None:
    """Raises UPPError INVALID_REQUEST if it is no JSON Schema, or Ollama can make no grammar of it."""
    try:
        check_schema(structure, "structure")
    except InvalidInput as error:
        raise refuse(str(error), PROVIDER) from error
    problem = next(_without_grammar(structure), None)
    if problem is not None:
        raise refuse(f"structure: {problem}", PROVIDER)


def _unreadable(schema: JSONObject, path: str = "$") -> Iterator[str]:
    """Yields properties that are true or false instead of an object; Ollama looks into `properties` and `anyOf`."""
    properties, choices = schema.get("properties"), schema.get("anyOf")
    inside = (
        {f"{path}.properties.{name}": value for name, value in properties.items()}
        if isinstance(properties, dict)
        else {}
    )
    if isinstance(choices, list):
        inside |= {f"{path}.anyOf[{index}]": value for index, value in enumerate(choices)}
    for where, value in inside.items():
        if isinstance(value, bool):
            yield f"at {where}: Ollama reads no true or false as a schema; write {{}} for true, leave out what is false"
        elif isinstance(value, dict):
            yield from _unreadable(value, where)


def _without_grammar(schema: JSONObject) -> Iterator[str]:
    for path, ref in references(schema):
        if not ref.startswith("#"):
            yield f"at {path}: Ollama does not fetch {ref!r}; put it into $defs"
    for path, inner in walk(schema):
        pattern = inner.get("pattern")
        if isinstance(pattern, str) and not (pattern.startswith("^") and pattern.endswith("$")):
            yield f"at {path}.pattern: Ollama wants patterns from ^ to $; write ^.*({pattern}).*$"
