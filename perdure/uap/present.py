"""`present`: the tool by which an agent chooses what media its user is shown. Source: UAMP 1.0, section 8.5.4."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from perdure.upp.function_tool import FunctionTool, tool
from perdure.upp.tool_media import MOST_ITEMS, StructuredToolResult
from perdure.upp.tools import Tool, ToolContext, ToolEffect


def presents(tool: Tool) -> bool:
    """Whether a tool is `present`."""
    return isinstance(tool, FunctionTool) and tool.name == present.name and tool.function == present.function


@tool(effect=ToolEffect.NONE)
async def present(
    content_ids: Annotated[
        list[str],
        Field(
            min_length=1, max_length=MOST_ITEMS, description="The content_id of each piece, in the order to show them"
        ),
    ],
    context: ToolContext,
) -> StructuredToolResult:
    """Show media to the user: images, sound, video or files, by their content_id. Never write their URLs in text."""
    media = [await context.find_content(ident) for ident in content_ids]
    return StructuredToolResult(media, "shown to the user", present=True)
