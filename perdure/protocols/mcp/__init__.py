"""MCP as a stage workflow speaks it: a stage's tools, an action's result, resources, and who sends it.

Pure, and the only package here that needs the extra `mcp` (its types alone): nothing imports it but the MCP doors, when
they are used. Only `extra` can be imported without it. Source: Model Context Protocol, revisions 2024-11-05 to 2026-07-28.
"""
