"""The one event that ends a response. Source: UAMP 1.0, sections 6.7 to 6.9."""

from __future__ import annotations

from typing import cast

from perdure.protocols.uamp_events.content_items import ContentItem
from perdure.protocols.uamp_events.log_row import Head, LogRow
from perdure.protocols.uamp_events.run_failure import wire_error
from perdure.protocols.uamp_events.server_events import Response, ResponseCancelled, ResponseDone, ResponseError
from perdure.protocols.uamp_events.usage import UsageStats
from perdure.upp.json_value import JSONObject


def ended(
    row: LogRow, head: Head, response_id: str, output: list[ContentItem], usage: UsageStats | None
) -> ResponseDone | ResponseError | ResponseCancelled:
    """The terminal event of a run's terminal row.

    Args:
        row: run.completed, run.failed or run.cancelled.
        head: of the event.
        response_id: the response.
        output: what it has put out, all or a part.
        usage: of the run; None if nothing was used.
    """
    match row.type:
        case "run.completed":
            response = Response(id=response_id, status="completed", output=output, usage=usage)
            return ResponseDone(**head, response_id=response_id, response=response)
        case "run.cancelled":
            return ResponseCancelled(**head, response_id=response_id, partial_output=output)
        case _:
            error = wire_error(cast(JSONObject, row.data.get("error") or {}))
            return ResponseError(**head, response_id=response_id, error=error)
