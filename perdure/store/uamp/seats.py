"""Open connections of UAMP's sessions: whose user is there. The chat's others are told when one comes and goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from sqlalchemy import func, update

from perdure.store.database import Database
from perdure.store.json_text import escaped_json
from perdure.store.tables import uamp_seats
from perdure.store.uamp.mail import enveloped
from perdure.store.uamp.rows import Seat
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject

LIVES_S = 30.0
"""How long a seat is held that nobody renews."""

_OVER = """
select distinct on (e.tenant_id, e.session_id, e.user_id) e.tenant_id, e.session_id, e.user_id, s.username, s.chat
  from perdure.uamp_seats e join perdure.uamp_sessions s on s.tenant_id = e.tenant_id and s.id = e.uamp_session
 where e.expires_at < clock_timestamp() limit 100
"""


async def take_seat(database: Database, seat: Seat, event: JSONObject) -> list[str]:
    """A connection is open; `event` tells the chat's others if its user had none. Which sessions got that."""
    row = seat.session
    told = escaped_json(enveloped(database.seal(row.key), event))
    answer = await database.call(
        "uamp_take_seat_v1", row.tenant, row.session, seat.id, row.id, row.user, LIVES_S, told
    )  # fmt: skip
    return cast("list[str]", answer["posted"])


async def leave_seat(database: Database, seat: Seat, event: JSONObject) -> list[str]:
    """A connection is closed; `event` tells the chat's others if its user has none left. Likewise."""
    row = seat.session
    told = escaped_json(enveloped(database.seal(row.key), event))
    answer = await database.call("uamp_leave_seat_v1", row.tenant, row.session, seat.id, row.user, told)
    return cast("list[str]", answer["posted"])


async def renew_seats(database: Database, seats: Sequence[Seat]) -> set[str]:
    """Hold these for longer; the ids of those that are still there."""
    statement = (
        update(uamp_seats)
        .where(uamp_seats.c.id.in_([seat.id for seat in seats]))
        .values(expires_at=func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, LIVES_S))
        .returning(uamp_seats.c.id)
    )
    async with database.transaction() as connection:
        return set((await connection.scalars(statement)).all())


async def users_over(database: Database) -> list[tuple[SessionKey, str, str | None, str | None]]:
    """Users of chats with seats that were not renewed: each chat's session, the user, its name, and the chat's name."""
    async with database.driver() as connection:
        rows = await connection.fetch(_OVER)
    return [
        (SessionKey(row["tenant_id"], row["session_id"]), row["user_id"], row["username"], row["chat"]) for row in rows
    ]


async def clear_seats(database: Database, key: SessionKey, user: str, event: JSONObject) -> list[str]:
    """Remove a user's seats that are over; `event` tells the chat's others if there is no other. Which got that."""
    told = escaped_json(enveloped(database.seal(key), event))
    answer = await database.call("uamp_leave_seat_v1", key.tenant, key.session, None, user, told)
    return cast("list[str]", answer["posted"])
