"""A response as its run's rows tell it so far, read again from the beginning."""

from __future__ import annotations

from perdure.api.doors.uamp.services import Services
from perdure.protocols.uamp_events.response_flow import ResponseFlow
from perdure.runtime.response_rows import ResponseRows
from perdure.store.events import read_events
from perdure.store.run_spans import read_run_span
from perdure.store.uamp.rows import ResponseRow, UampSessionRow
from perdure.uap.options import RunOptions

IS_PAID, SHOWS_THINKING = "paid", "thinking"
"""Of what a response was asked with: whether it is paid for, and whether its client is told what is thought."""


def flow_of(session: UampSessionRow, response: ResponseRow, run: str) -> ResponseFlow:
    """What maps the rows of a response's run; for whoever tells it, and whenever, in the same way."""
    options = RunOptions.from_json(response.asked["options"])
    client_tools = [str(tool["name"]) for tool in options.client_tools]
    return ResponseFlow(
        response.id,
        run,
        session.id,
        client_tools=client_tools,
        thinking=bool(response.asked[SHOWS_THINKING]),
        paid=bool(response.asked[IS_PAID]),
    )


async def replayed(services: Services, session: UampSessionRow, response: ResponseRow) -> ResponseFlow:
    """The flow of a response, fed with all that is there of its run now."""
    assert response.run is not None, "nothing can be asked of a response before it has begun"
    flow = flow_of(session, response, response.run)
    rows = ResponseRows(services.database, session.key, response.run)
    span = await read_run_span(services.database, session.tenant, response.run)
    after = span.before
    while page := await read_events(services.database, session.key, after=after):
        for row in page:
            for whole in await rows.read(row):
                flow.take(whole.row, answer=None if whole.answer is None else whole.answer.message)
        after = page[-1].seq
    return flow
