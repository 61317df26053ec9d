"""What a check has seen, and what was found wrong, with what mends it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

from temporalio.client import Client

from perdure.store.database import Database
from perdure.store.faults import BUSY, GONE, MENDED
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject

MOST_SHOWN = 100

OUTCOMES = {
    MENDED: "repaired",
    BUSY: "left as it is: the session has an active run; do it again when that has ended",
    GONE: "it is there no more",
}


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to look.

    Attributes:
        database: the store, of this version's schema.
        tenant: whose sessions.
        client: Temporal's, or None if it does not answer: what needs it is left out.
        stuck_after: a run that has written nothing for so long is named.
    """

    database: Database
    tenant: str
    client: Client | None = None
    stuck_after: timedelta = timedelta(minutes=15)


@dataclass(slots=True)
class Finding:
    """Something that is wrong.

    Attributes:
        what: is wrong, in a phrase.
        remedy: what mends it.
        key: the session that it is about, if it is about one.
        mend: mends it if it is still there, safe to repeat, and says what came of it; None if we cannot.
        outcome: of the mending, once it was tried.
    """

    what: str
    remedy: str
    key: SessionKey | None = None
    mend: Callable[[], Awaitable[str]] | None = None
    outcome: str = ""

    @property
    def text(self) -> str:
        """All of it in one line."""
        line = self.what if self.key is None else f"session {self.key.session}: {self.what}"
        return f"{line}; {self.outcome or self.remedy}"

    def to_json(self) -> JSONObject:
        """As a program reads it."""
        session = None if self.key is None else self.key.session
        return {
            "session": session,
            "what": self.what,
            "remedy": self.remedy,
            "repairable": self.mend is not None,
            "outcome": self.outcome or None,
        }


@dataclass(slots=True)
class Check:
    """One thing looked at.

    Attributes:
        name: a stable word.
        ok: nothing is wrong with it, or not any more.
        detail: what was seen, and what to do if it is wrong.
        found: what the detail counts, at most `MOST_SHOWN`.
        findings: the same of what is wrong and can perhaps be mended.
        count: how many there are.
        mended: how many of them were mended.
    """

    name: str
    ok: bool
    detail: str
    found: list[str] = field(default_factory=list[str])
    findings: list[Finding] = field(default_factory=list[Finding])
    count: int = 0
    mended: int = 0

    def to_json(self) -> JSONObject:
        """As a program reads it."""
        return {
            "name": self.name,
            "ok": self.ok,
            "detail": self.detail,
            "found": [*self.found],
            "count": self.count,
            "repaired": self.mended,
            "findings": [finding.to_json() for finding in self.findings],
        }


class Tally:
    """Counts what a check finds, and mends it if it is asked to; only the first findings are kept."""

    def __init__(self, name: str, well: str, *, repair: bool) -> None:
        """Count for the check `name`, which says `well` if it finds nothing."""
        self._name = name
        self._well = well
        self._repair = repair
        self._findings: list[Finding] = []
        self._count = 0
        self._mended = 0

    async def add(self, finding: Finding) -> None:
        """Count a finding."""
        if self._repair and finding.mend is not None:
            outcome = await finding.mend()
            finding.outcome = OUTCOMES.get(outcome, outcome)
            self._mended += outcome in (MENDED, GONE)
        self._count += 1
        if len(self._findings) < MOST_SHOWN:
            self._findings.append(finding)

    def check(self) -> Check:
        """What came of it."""
        detail = self._well
        if self._count and self._repair:
            detail = f"{self._count} found, {self._mended} repaired"
        elif self._count:
            possible = sum(finding.mend is not None for finding in self._findings)
            detail = f"{self._count} found" + ("; `perdure doctor --repair` mends what it can" if possible else "")
        return Check(
            self._name,
            self._count == self._mended,
            detail,
            [finding.text for finding in self._findings],
            self._findings,
            self._count,
            self._mended,
        )
