"""What the demo's run cost and left: counted in its ledger, in rows and in Temporal's history, after it ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from temporalio.client import Client

from perdure.cli.demo_project.ledger import Entry, repeated
from perdure.store.database import Database
from perdure.store.runs import RunRow
from perdure.store.tables import messages, tool_calls
from perdure.uap.session_key import SessionKey


@dataclass(frozen=True, slots=True)
class Stored:
    """What the store holds of a run.

    Attributes:
        answers: model answers.
        answers_twice: answers beyond the first of their step.
        results: results of tool calls.
    """

    answers: int
    answers_twice: int
    results: int


async def count_stored(database: Database, key: SessionKey, run: str) -> Stored:
    """Count a run's rows."""
    answers = select(messages.c.step, func.count()).where(
        messages.c.tenant_id == key.tenant,
        messages.c.session_id == key.session,
        messages.c.run_id == run,
        messages.c.type == "assistant",
    )
    results = select(func.count()).where(
        tool_calls.c.tenant_id == key.tenant,
        tool_calls.c.session_id == key.session,
        tool_calls.c.run_id == run,
        tool_calls.c.state == "done",
    )
    async with database.transaction() as connection:
        by_step = [count for _, count in (await connection.execute(answers.group_by(messages.c.step))).tuples()]
        return Stored(sum(by_step), sum(by_step) - len(by_step), (await connection.execute(results)).scalar_one())


@dataclass(frozen=True, slots=True)
class History:
    """The size of what Temporal keeps of a session: all executions of its workflow, one after the other."""

    executions: int
    events: int
    size_bytes: int


async def measure_history(client: Client, key: SessionKey) -> History:
    """Wait until the session's workflow has ended, then count the events of its history and their bytes.

    Raises:
        RPCError: Temporal does not answer.
    """
    last = client.get_workflow_handle(key.workflow_id)
    await last.result(follow_runs=True)
    run_id = (await last.describe()).run_id
    executions = events = size_bytes = 0
    while run_id:
        history = await client.get_workflow_handle(key.workflow_id, run_id=run_id).fetch_history()
        executions += 1
        events += len(history.events)
        size_bytes += sum(event.ByteSize() for event in history.events)
        run_id = history.events[0].workflow_execution_started_event_attributes.continued_execution_run_id
    return History(executions, events, size_bytes)


@dataclass(frozen=True, slots=True)
class Figures:
    """How the run went.

    Attributes:
        run: its row.
        entries: the whole ledger.
        stored: its rows.
        history: of its session.
        recovery_s: from the kill to the first effect of the next worker; None if there was no kill or no such effect.
        start_s: how much of that the next worker took to start.
    """

    run: RunRow
    entries: Sequence[Entry]
    stored: Stored
    history: History
    recovery_s: float | None
    start_s: float

    @property
    def bought(self) -> int:
        """Model calls that were bought."""
        return sum(entry.kind == "model" for entry in self.entries)

    @property
    def tool_runs(self) -> int:
        """Times that a tool ran."""
        return sum(entry.kind == "tool" for entry in self.entries)

    @property
    def duplicates(self) -> int:
        """Model calls bought again, tools run again, answers stored again."""
        return len(repeated(self.entries)) + self.stored.answers_twice

    @property
    def runs_by_tool(self) -> Counter[str]:
        """How often each tool ran."""
        return Counter(entry.name for entry in self.entries if entry.kind == "tool")


def first_by(entries: Sequence[Entry], pid: int) -> Entry | None:
    """The first effect of a process."""
    return next((entry for entry in entries if entry.pid == pid), None)


def is_quiet(entries: Sequence[Entry], stored: Stored) -> bool:
    """Whether all that was bought and run is stored: nothing is in flight that a kill would cost a second time."""
    kinds = Counter(entry.kind for entry in entries)
    return kinds["model"] == stored.answers and kinds["tool"] == stored.results
