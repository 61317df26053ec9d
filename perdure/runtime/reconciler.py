"""The reconciler: every worker process holds open executions against active rows, a page a round, and mends what differs.

The sweep finds at once what the store knows of; this finds the rest, however old: among all tenants' sessions none is left
out for long, and none is looked at often.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import NoReturn

from temporalio.client import Client

from perdure.runtime.executions import (
    YOUNG,
    end_stray,
    find_lost,
    find_lost_stages,
    find_strays,
    wake_lost,
    wake_lost_stage,
)
from perdure.runtime.rounds import repeat
from perdure.store.database import Database
from perdure.store.faults import MENDED, find_faults, mend_fault
from perdure.store.head_faults import ENDED_IS_ACTIVE, WRONG_STATUS
from perdure.store.open_runs import OpenRun, page_open_runs
from perdure.store.run_faults import LEFT_OPEN
from perdure.store.session_pages import page_heads
from perdure.store.stages.standings import BegunAction, page_begun
from perdure.uap.session_key import SessionKey

logger = logging.getLogger(__name__)

_FAULTS = (ENDED_IS_ACTIVE, LEFT_OPEN, WRONG_STATUS)
_OPEN = (
    'ExecutionStatus = "Running" AND WorkflowType IN ("perdure.session", "perdure.session.sandboxed", "StageWorkflow")'
)
_JITTER = 0.3


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the reconciler goes.

    Attributes:
        period: from one round to the next.
        runs: how many open runs, and actions of stage sessions, a round looks at.
        executions: how many open executions.
        sessions: how many sessions' rows.
        repairs: how many things of each kind it mends.
        young: what is younger is left alone.
    """

    period: timedelta = timedelta(seconds=10)
    runs: int = 100
    executions: int = 100
    sessions: int = 500
    repairs: int = 20
    young: timedelta = YOUNG


class Reconciler:
    """One process's reconciler. A round begins where the one before has stopped."""

    def __init__(self, client: Client, database: Database, *, pace: Pace | None = None) -> None:
        """Hold executions of `client` against rows of `database`, at the usual pace if none is given."""
        self._client = client
        self._database = database
        self._pace = pace or Pace()
        self._run: OpenRun | None = None
        self._action: BegunAction | None = None
        self._session: SessionKey | None = None
        self._token: bytes | None = None

    async def run(self) -> NoReturn:
        """Make rounds until cancelled."""
        works = (self.wake_lost_runs, self.wake_lost_stages, self.end_strays, self.mend_rows)
        await repeat(works, self._pace.period, jitter=_JITTER)

    async def wake_lost_runs(self) -> int:
        """Wake the sessions of active runs whose execution is closed or lost; how many."""
        pace = self._pace
        runs = await page_open_runs(self._database, None, quiet=pace.young, after=self._run, limit=pace.runs)
        self._run = runs[-1] if len(runs) == pace.runs else None
        lost = await find_lost(self._client, self._database, runs)
        outcomes = [await wake_lost(self._client, self._database, run.key) for run in lost[: pace.repairs]]
        return self._told("run_woken", outcomes)

    async def wake_lost_stages(self) -> int:
        """Wake the stage sessions of begun actions whose execution is closed or lost; how many."""
        pace = self._pace
        page = await page_begun(self._database, None, quiet=pace.young, after=self._action, limit=pace.runs)
        self._action = page[-1] if len(page) == pace.runs else None
        lost = await find_lost_stages(self._client, [one for one in page if not one.rests])
        outcomes = [await wake_lost_stage(self._client, self._database, one) for one in lost[: pace.repairs]]
        return self._told("stage_woken", outcomes)

    async def end_strays(self) -> int:
        """End open executions of sessions that are gone or have nothing to run; how many."""
        pace = self._pace
        listed = self._client.list_workflows(_OPEN, page_size=pace.executions, next_page_token=self._token)
        await listed.fetch_next_page(page_size=pace.executions)
        self._token = listed.next_page_token
        strays = await find_strays(self._client, self._database, listed.current_page or [], young=pace.young)
        outcomes = [
            await end_stray(self._client, self._database, stray, young=pace.young) for stray in strays[: pace.repairs]
        ]
        return self._told("execution_ended", outcomes)

    async def mend_rows(self) -> int:
        """Free sessions of runs that have ended, make runs active that nobody goes on with; how many."""
        pace = self._pace
        page = await page_heads(self._database, after=self._session, quiet=pace.young, limit=pace.sessions)
        self._session = page.last
        by_tenant: dict[str, list[str]] = {}
        for key in page.quiet:
            by_tenant.setdefault(key.tenant, []).append(key.session)
        outcomes: list[str] = []
        for tenant, sessions in by_tenant.items():
            found = await find_faults(self._database, tenant, sessions, _FAULTS)
            outcomes += [await mend_fault(self._database, one) for one in found[: pace.repairs]]
        return self._told("row_mended", outcomes)

    def _told(self, what: str, outcomes: list[str]) -> int:
        count = outcomes.count(MENDED)
        if count:
            logger.info("reconciler.%s count=%s", what, count)
        return count
