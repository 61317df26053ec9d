"""What a sub-agent thinks, as the progress of the call that asked it. Source: UAMP 1.0, section 6.13."""

from __future__ import annotations

from typing import cast

from perdure.protocols.uamp_events.log_row import LogRow, RowHeads
from perdure.protocols.uamp_events.server_events import ResponseDelta, ToolProgressDelta, ToolText
from perdure.upp.json_value import JSONObject
from perdure.upp.stream import StreamEventType


def forwarded_thinking(row: LogRow, *, session_id: str, response_id: str, call_id: str) -> ResponseDelta | None:
    """The tool_progress delta of a sub-agent's row; None for a row that is no reasoning.

    Args:
        row: of the sub-agent's run.
        session_id: the UAMP session that is told.
        response_id: the parent's response.
        call_id: the parent's call of the sub-agent.
    """
    delta = cast(JSONObject, row.data.get("delta") or {})
    text = delta.get("text")
    if row.source != "upp" or row.type != StreamEventType.REASONING_DELTA or not isinstance(text, str) or not text:
        return None
    head = RowHeads(session_id, f"{response_id}/{call_id}/{row.run}", row, of_chat=False).next()
    told = ToolProgressDelta(tool_progress=ToolText(call_id=call_id, text=text))
    return ResponseDelta(**head, response_id=response_id, delta=told)
