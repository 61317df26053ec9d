"""Whether this installation can speak MCP."""

from __future__ import annotations

from importlib.util import find_spec

MISSING = "MCP needs the extra `mcp`: pip install 'perdure[mcp]'"


def is_there() -> bool:
    """Whether the extra `mcp` is installed."""
    return find_spec("mcp") is not None
