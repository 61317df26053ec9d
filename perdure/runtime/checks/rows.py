"""Checks of sessions' rows, each of one page of sessions: what rows alone show, and gaps in event logs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from perdure.runtime.checks.check import Finding, Scope
from perdure.store.database import Database
from perdure.store.faults import GONE, MENDED, Fault, Found, find_faults, mend_fault
from perdure.store.head_faults import HEAD_FAULTS
from perdure.store.log_gaps import Gap, fill_gaps, find_gaps, find_uneven
from perdure.store.run_faults import RUN_FAULTS
from perdure.store.stages.faults import STAGE_FAULTS
from perdure.store.tree_faults import CHECKPOINT_FAULTS, TREE_FAULTS
from perdure.uap.session_key import SessionKey


class PageCheck(Protocol):
    """A check that is made page by page.

    Attributes:
        name: a stable word.
        well: what it says if it finds nothing.
    """

    name: str
    well: str

    async def find(self, scope: Scope, sessions: Sequence[str]) -> list[Finding]:
        """What is wrong with these sessions."""
        ...


class RowCheck:
    """Faults that rows alone show."""

    def __init__(self, name: str, well: str, faults: Sequence[Fault]) -> None:
        """Look for these kinds of faults."""
        self.name = name
        self.well = well
        self._faults = faults

    async def find(self, scope: Scope, sessions: Sequence[str]) -> list[Finding]:
        """See base class."""
        found = await find_faults(scope.database, scope.tenant, sessions, self._faults)
        return [_finding(scope.database, one) for one in found]


def _finding(database: Database, found: Found) -> Finding:
    can = found.fault.mend is not None or found.fault.settle is not None
    mend = partial(mend_fault, database, found) if can else None
    return Finding(found.what, found.remedy, found.key, mend)


async def find_stage_faults(scope: Scope, sessions: Sequence[str]) -> list[Finding]:
    """What rows alone show of damage of these stage sessions."""
    found = await find_faults(scope.database, scope.tenant, sessions, STAGE_FAULTS)
    return [_finding(scope.database, one) for one in found]


class LogCheck:
    """Gaps in event logs. What is lost cannot be had again; that it is lost is said in its place."""

    name = "events"
    well = "every log has all its numbers"

    async def find(self, scope: Scope, sessions: Sequence[str]) -> list[Finding]:
        """See base class."""
        findings: list[Finding] = []
        for session in await find_uneven(scope.database, scope.tenant, sessions):
            key = SessionKey(scope.tenant, session)
            gaps = await find_gaps(scope.database, key)
            if gaps and (gaps := _still(gaps, await find_gaps(scope.database, key))):  # else it was folded meanwhile
                what = f"its event log lacks {', '.join(_name(gap) for gap in gaps[:10])}"
                remedy = "restore them from a backup; else --repair says in their place that they are lost"
                findings.append(Finding(what, remedy, key, partial(_fill, scope.database, key)))
        return findings


async def _fill(database: Database, key: SessionKey) -> str:
    return MENDED if await fill_gaps(database, key) else GONE


def _still(first: Sequence[Gap], second: Sequence[Gap]) -> list[Gap]:
    return [gap for gap in second if gap in first]


def _name(gap: Gap) -> str:
    return f"{gap[0]}" if gap[0] == gap[1] else f"{gap[0]} to {gap[1]}"


ROW_CHECKS: tuple[PageCheck, ...] = (
    RowCheck("heads", "every session can be written to", HEAD_FAULTS),
    RowCheck("runs", "every run has ended or is gone on with", RUN_FAULTS),
    RowCheck("tree", "every thread node is there", TREE_FAULTS),
    RowCheck("checkpoints", "every checkpoint stands in its thread", CHECKPOINT_FAULTS),
    LogCheck(),
)
