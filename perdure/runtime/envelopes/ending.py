"""Ends of streams that are not made by whoever reads them: by an envelope, by an answer, by nobody's reading."""

from __future__ import annotations

from perdure.protocols.uamp_envelope.delta import DeltaType
from perdure.protocols.uamp_envelope.lifecycle import Step
from perdure.runtime.envelopes.numbering import Numbering, room_of
from perdure.runtime.envelopes.stream_parts import StreamParts
from perdure.runtime.envelopes.terminal import End, end_exchange
from perdure.store.envelopes.exchanges import find_exchange
from perdure.store.runs import TERMINAL, find_run
from perdure.upp.json_value import JSONObject


async def end_stream(parts: StreamParts, exchange_id: str, type: DeltaType, payload: JSONObject, *, step: Step) -> bool:
    """End a stream now, whatever of it is not told yet. Streams that are being read are told, in every process.

    An exchange that has come to its end otherwise keeps that: its terminal frame says so.

    Args:
        parts: of the process.
        exchange_id: the exchange.
        type: of the terminal frame.
        payload: of the same: an error object, an answer; the transcript is added.
        step: what the exchange takes with it.

    Returns:
        Whether this call has ended it; not if it had its terminal frame, or is not there any more.
    """
    row = await find_exchange(parts.database, parts.tenant, exchange_id)
    if row is None or row.is_over:
        return False
    return (await end_exchange(parts, row, End(type, payload, step))).is_new


async def catch_up(parts: StreamParts, exchange_id: str) -> bool:
    """Number what the window lets of an exchange whose run has ended, for which nobody may be reading.

    Returns:
        Whether it has its terminal frame now.
    """
    row = await find_exchange(parts.database, parts.tenant, exchange_id)
    numbering = Numbering(parts)
    try:
        while row is not None and not row.is_over:
            row = await numbering.advance(row)
            if row is None or row.is_over or numbering.is_blocked(row):
                break
            if row.run is None or (await find_run(parts.database, parts.tenant, row.run)).status not in TERMINAL:
                break
            more = None if numbering.source is None else numbering.source.wants(room_of(row))
            if more is None:
                break
            await more
    finally:
        await numbering.close()
    return row is not None and row.is_over
