"""`keep_turn`: the turn that a strategy of the user's own returned becomes its run's.

The run's rows that are in the turn stay where they are; new messages go where the turn has them, into places that were left
free for them. Where the turn has another order than the rows, what comes after is stored once more, at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from temporalio import activity

from perdure.activities import contracts
from perdure.activities.contracts import KeepTurnInput, KeepTurnResult
from perdure.activities.lifeline import STORE_PATIENCE, beating, writer_of
from perdure.activities.services import Services
from perdure.store.answers import Writer, keep_own_turn
from perdure.store.database import keep_trying
from perdure.store.messages import StoredMessage, read_messages
from perdure.testing.crash import crash_point
from perdure.uap.ids import derive_id
from perdure.upp.json_value import JSONObject, dumps, sha256_hex
from perdure.upp.messages import Message, message_from_json

SETTLE = dumps("This tool was not run: its strategy went on without it.")


class KeepTurn:
    """The turns that one worker keeps."""

    def __init__(self, services: Services) -> None:
        """Write to the store of `services`."""
        self._services = services

    @activity.defn(name=contracts.KEEP_TURN)
    async def keep_turn(self, call: KeepTurnInput) -> KeepTurnResult:
        """Keep it, in one transaction; safe to repeat.

        Raises:
            DamagedSession: a message that the turn names is not there.
        """
        async with beating():
            crash_point("keep_turn.begun")
            writer = writer_of(call.tenant, call.session, call.run)
            result = await keep_trying(lambda: self._keep(writer, call), deadline=STORE_PATIENCE)
            crash_point("keep_turn.stored")
            self._services.announcer.changed(writer.key)
            return result

    async def _keep(self, writer: Writer, call: KeepTurnInput) -> KeepTurnResult:
        database = self._services.database
        stored = await read_messages(database, writer.key, call.node, first=call.start, discarded=True)
        placed = place_turn(call, stored)
        bodies = [dumps(item.message.to_json()) for item in placed.new]
        rows: list[JSONObject] = [
            {
                "id": item.id,
                "position": item.position,
                "step": call.step,
                "type": str(item.message.type),
                "sha256": sha256_hex(body),
            }
            for item, body in zip(placed.new, bodies, strict=True)
        ]
        kind, end = await keep_own_turn(
            database, writer, call.node, at=call.at, settle=SETTLE, keep=placed.kept, rows=rows, bodies=bodies,
            pending=call.pending,
        )  # fmt: skip
        return KeepTurnResult(kind, end)


@dataclass(frozen=True, slots=True)
class NewRow:
    """A message that is stored with the turn."""

    id: str
    position: int
    message: Message


@dataclass(frozen=True, slots=True)
class PlacedTurn:
    """Row ids of the run's messages that stay, and the rows that come to them."""

    kept: list[str]
    new: list[NewRow]


def place_turn(call: KeepTurnInput, stored: Sequence[StoredMessage]) -> PlacedTurn:
    """Find a place for each message of a turn. Messages from before the run are in the thread already.

    Args:
        call: names the turn's messages.
        stored: all rows of the node from the run's first on, by position.
    """
    made = {_new_id(call, place) for place in range(len(call.items))}  # of an attempt before this one
    known = {item.id: item for item in stored if item.run == call.run and item.id not in made}
    taken = {item.position for item in stored if item.id not in made}
    last, end = call.start - 1, max(taken, default=call.start - 1) + 1
    kept: list[str] = []
    new: list[NewRow] = []
    waiting: list[tuple[int, Message]] = []
    at_end = False
    for place, item in enumerate(call.items):
        row = known.get(str(item.get("id")))
        if row is None:
            if "message" in item:
                waiting.append((place, message_from_json(item["message"])))
            continue
        free = [position for position in range(last + 1, row.position) if position not in taken]
        at_end = at_end or row.position <= last or len(free) < len(waiting) or row.id in kept
        if at_end:
            waiting.append((place, row.message))
            continue
        for position, (number, message) in zip(free[len(free) - len(waiting) :], waiting, strict=True):
            new.append(NewRow(_new_id(call, number), position, message))
        waiting, last = [], row.position
        kept.append(row.id)
    for number, message in waiting:
        new.append(NewRow(_new_id(call, number), end, message))
        end += 1
    return PlacedTurn(kept, new)


def _new_id(call: KeepTurnInput, place: int) -> str:
    return derive_id(call.run, "turned", place)
