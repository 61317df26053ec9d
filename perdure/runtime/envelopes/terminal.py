"""The terminal frame of a stream: numbered once, whoever ends it, with a signature over all frames.

A stream that ends before all was told (a cancel, an error) drops the frames that no consumer was given: its terminal frame
comes right behind the last that one was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.protocols.uamp_envelope.delta import Delta, DeltaType
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.protocols.uamp_envelope.lifecycle import State, Step, advanced
from perdure.protocols.uamp_envelope.transcript import Transcript
from perdure.runtime.envelopes.frame_source import told_part
from perdure.runtime.envelopes.pieces import plain_object
from perdure.runtime.envelopes.stream_parts import StreamParts
from perdure.store.envelopes.frames import drop_unsent, frames_in, save_frames
from perdure.store.envelopes.rows import ExchangeRow
from perdure.store.envelopes.settling import advance, hold_exchange
from perdure.upp.json_value import JSONObject

_PAGE = 64
_STEPS: Mapping[DeltaType, Step] = MappingProxyType(
    {DeltaType.DONE: Step.DONE, DeltaType.CANCEL: Step.CANCEL, DeltaType.ERROR: Step.ERROR}
)


@dataclass(frozen=True, slots=True)
class End:
    """How a stream ends.

    Attributes:
        type: of the terminal frame.
        payload: of the same, without the transcript.
        step: what the exchange takes with it.
        after: all frames that there are stay, if they are those up to this place of the log, `(log_seq, part)`; else
            nothing is done. None: those that no consumer was given are dropped.
    """

    type: DeltaType
    payload: JSONObject
    step: Step
    after: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of an attempt to end a stream.

    Attributes:
        row: the exchange as it is then; None if it is not there any more.
        is_new: whether this attempt has made its terminal frame.
    """

    row: ExchangeRow | None
    is_new: bool = False


async def end_exchange(parts: StreamParts, row: ExchangeRow, end: End) -> Ended:
    """End the stream of an exchange that was found open.

    One that has come to its end otherwise keeps that: its terminal frame says so.

    Returns:
        What came of it; nothing is done if the stream had its terminal frame.
    """
    key = await parts.signing(row.own)
    async with parts.database.transaction(row.key) as connection:
        held = await hold_exchange(connection, parts.tenant, row.id)
        if held is None or held.is_over:
            return Ended(held)
        if held.state.is_terminal and held.state is not advanced(State.IN_PROGRESS, end.step):
            end = end_of(held)
        if end.after is None:
            held = await drop_unsent(connection, held)
        elif end.after != (held.log_seq, told_part(held)):
            return Ended(held)
        transcript = await _transcript(connection, held)
        payload = plain_object({**end.payload, **_facts(held)})
        frame = transcript.signed(Delta(held.next_seq, held.stream_id, parts.clock(), end.type, payload), key)
        held = await save_frames(connection, held, [frame])
        error = end.payload if end.type is DeltaType.ERROR else None
        held = await advance(connection, held, end.step, now=frame.sent_at, error=error)
    parts.signals.announce(row.id)
    return Ended(held, is_new=True)


def end_of(row: ExchangeRow) -> End:
    """How the stream of an exchange ends that was ended by an envelope, and has no terminal frame yet."""
    if row.state is State.CANCELLED:
        return End(DeltaType.CANCEL, {}, Step.CANCEL)
    unsaid = UAMPError(Code.INTERNAL, "the exchange has ended", ref=row.envelope)
    return End(DeltaType.ERROR, row.error or unsaid.to_json(), Step.ERROR)


def step_of(type: DeltaType) -> Step:
    """What an exchange takes with a terminal frame of its run."""
    return _STEPS[type]


async def _transcript(connection: AsyncConnection, row: ExchangeRow) -> Transcript:
    transcript = Transcript()
    after = -1
    while page := await frames_in(connection, row.tenant, row.id, after=after, upto=row.next_seq - 1, limit=_PAGE):
        for frame in page:
            transcript.add(frame)
        after = page[-1].seq
    return transcript


def _facts(row: ExchangeRow) -> JSONObject:
    """Where the work is, for whoever looks for it here."""
    facts: JSONObject = {"session": row.session, "run": row.run}
    return {name: value for name, value in facts.items() if value is not None}
