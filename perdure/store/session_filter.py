"""Which sessions a list shows that is filtered by metadata: an index is walked in the list's order, from where a page ended.

With one key a page costs what it shows, whatever the status. With several the one that has the fewest sessions is walked, and
the others are looked up for each of them: a page costs at most what that one has, and mostly little more than it shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Subquery, and_, func, literal, select, tuple_, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.filterable_keys import known_values
from perdure.store.tables import session_heads, session_labels
from perdure.upp.json_value import JSONValue

Place: TypeAlias = "tuple[datetime, str]"
_ALONE = 0
"""An offset of nothing: PostgreSQL then looks a condition up row by row, and does not make it into a join of all rows."""
_COUNTED = 5000

_walked = session_labels.alias("walked")
_NEWEST_FIRST = (_walked.c.created_at.desc(), _walked.c.session_id.desc())
_HEADED = (session_heads.c.tenant_id == _walked.c.tenant_id, session_heads.c.session_id == _walked.c.session_id)


@dataclass(frozen=True, slots=True)
class _Label:
    """A key and the value that sessions must have of it."""

    tenant: str
    key: str
    value: str

    def walk(self, status: str | None, before: Place | None) -> ColumnElement[bool]:
        """Which rows an index is walked along."""
        wanted: dict[str, str] = {"key": self.key, "tenant_id": self.tenant, "value": self.value}
        if status is not None:
            wanted["status"] = status
        found = [_walked.c[name] == value for name, value in wanted.items()]
        if before is not None:
            found.append(tuple_(_walked.c.created_at, _walked.c.session_id) < before)
        return and_(*found)

    def holds(self) -> ColumnElement[bool]:
        """Whether the session of a row has this label, too. Looked for in the same order, it is found in what was read last."""
        other = session_labels.alias()
        own = (other.c.tenant_id == self.tenant, other.c.key == self.key, other.c.value == self.value)
        same = (other.c.created_at == _walked.c.created_at, other.c.session_id == _walked.c.session_id)
        return select(literal(1)).where(*own, *same).offset(_ALONE).exists()


async def page_filtered(
    connection: AsyncConnection,
    tenant: str,
    metadata: Mapping[str, JSONValue],
    *,
    status: str | None,
    before: Place | None,
    limit: int,
) -> Subquery:
    """A page's sessions, as a query of their "created_at" and "session_id", newest first.

    Args:
        connection: of the transaction in which the query is made.
        tenant: whose.
        metadata: what the metadata must have under each of these keys; at least one.
        status: what they must be, too.
        before: creation time and id of the last session of the page before.
        limit: at most so many.

    Raises:
        InvalidInput: lists cannot be filtered by one of the keys or values.
        FilterIncomplete: of one of the keys not all is known yet.
    """
    values = await known_values(connection, metadata)
    labels = [_Label(tenant, key, value) for key, value in values.items()]
    walks = [label.walk(status, before) for label in labels]
    place = 0 if len(labels) == 1 else await _smallest(connection, walks)
    others = [label.holds() for number, label in enumerate(labels) if number != place]
    headed = select(literal(1)).where(*_HEADED).offset(_ALONE).exists()
    query = select(_walked.c.created_at, _walked.c.session_id).where(walks[place], *others, headed)
    return query.order_by(*_NEWEST_FIRST).limit(limit).subquery("page")


async def _smallest(connection: AsyncConnection, walks: Sequence[ColumnElement[bool]]) -> int:
    """Which has the fewest rows; among those that are all long, the first.

    They are counted in their order, by which an index is walked and never a whole table.
    """
    counts = [
        select(literal(place), func.count()).select_from(
            select(literal(1)).select_from(_walked).where(walk).order_by(*_NEWEST_FIRST).limit(_COUNTED).subquery()
        )
        for place, walk in enumerate(walks)
    ]
    rows: list[Any] = list((await connection.execute(union_all(*counts))).all())
    smallest: int = min((row[1], row[0]) for row in rows)[1]
    return smallest
