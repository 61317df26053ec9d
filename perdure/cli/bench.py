"""`perdure bench`: what a step of a user's own agent takes and leaves behind, on the servers that it runs on."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from perdure.cli import exits
from perdure.cli.bench_report import Bench, show
from perdure.cli.connection import open_sessions
from perdure.cli.output import put_json, say
from perdure.cli.parameters import AsJson, checked_text
from perdure.cli.process_times import ProcessTime, read_times
from perdure.errors import InvalidInput
from perdure.runtime.bench import NEW_SESSION, BenchPlan, BenchProgress, check_served, run_bench
from perdure.runtime.bench_costs import Before, read_before, read_costs
from perdure.runtime.sessions import Sessions
from perdure.uap.session_key import known_session_id

_SILENCE_S = 5.0
_SHOWN_FAILURES = 10

app = typer.Typer(add_completion=False)


@app.command()
def bench(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name.")],
    text: Annotated[str, typer.Argument(metavar="INPUT", help="What to tell it, every time.")],
    runs: Annotated[int, typer.Option(min=1, help="How many runs.")] = 20,
    at_once: Annotated[int | None, typer.Option(min=1, help="How many at a time; 5, and 1 in one session.")] = None,
    session: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Run them one after another in this session, or in one that `new` opens."),
    ] = None,
    limit: Annotated[
        float, typer.Option("--max-seconds", min=0.1, help="Cancel a run that takes longer; it counts as failed.")
    ] = 600.0,
    pid: Annotated[
        list[int] | None,
        typer.Option(metavar="PID", help="Also the CPU time of this process of this machine, and of those it started."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Run an agent many times and show what a step takes: time, history, rows, tokens."""
    if session is not None and at_once not in (None, 1):
        raise InvalidInput("--at-once is for sessions of their own; with --session the runs come one after another")
    plan = BenchPlan(
        agent=checked_text(agent, "AGENT"),
        text=checked_text(text, "INPUT"),
        runs=runs,
        at_once=1 if session is not None else min(runs, at_once or 5),
        session=session if session in (None, NEW_SESSION) else known_session_id(session),
        limit_s=limit,
    )
    progress = BenchProgress()
    try:
        done = asyncio.run(_bench(plan, pid or [], progress))
    except KeyboardInterrupt:
        return _interrupted(progress, as_json=as_json)
    if as_json:
        put_json(done.to_json())
    else:
        show(done)
    _say_failed(done)
    return exits.FAILED if done.failed else exits.OK


async def _bench(plan: BenchPlan, pids: list[int], progress: BenchProgress) -> Bench:
    read_times(pids)
    async with open_sessions() as sessions:
        await check_served(sessions, plan.agent)
        before = await _before(sessions, plan)
        say(f"{plan.runs} runs of {plan.agent}, {plan.at_once} at a time; each is a run like any other, and is kept")
        hint = asyncio.get_running_loop().call_later(_SILENCE_S, _explain_silence, progress)
        times = read_times(pids)
        try:
            await run_bench(sessions, plan, progress)
        finally:
            hint.cancel()
        cpu = [_used(*pair) for pair in zip(times, read_times(pids), strict=True)]
        costs = await read_costs(sessions, [run.id for run in progress.ended], before)
    return Bench(plan, progress.ended, progress.wall_s, costs, cpu)


async def _before(sessions: Sessions, plan: BenchPlan) -> dict[str, Before]:
    if plan.session in (None, NEW_SESSION):
        return {}
    return {plan.session: await read_before(sessions, plan.session)}


def _used(before: ProcessTime, after: ProcessTime) -> ProcessTime:
    return ProcessTime(after.pid, after.name, after.cpu_ms - before.cpu_ms)


def _explain_silence(progress: BenchProgress) -> None:
    if not progress.begun:
        say("no worker has begun a run yet; they run when one does: `perdure worker MODULE:APP`")


def _say_failed(done: Bench) -> None:
    failed = done.failed
    if not failed:
        return
    say(f"{len(failed)} of {len(done.runs)} runs did not complete; times are of those that did", style="red")
    for run in failed[:_SHOWN_FAILURES]:
        error = run.error or {}
        say(f"run {run.id} of session {run.session}: {error.get('type')}: {error.get('message')}")
    if len(failed) > _SHOWN_FAILURES:
        say(f"and {len(failed) - _SHOWN_FAILURES} more; --json names all")


def _interrupted(progress: BenchProgress, *, as_json: bool) -> int:
    message = f"interrupted; {len(progress.ended)} runs had ended, {len(progress.cancelled)} in flight were cancelled"
    say(message, style="")
    if as_json:
        put_json({"error": {"type": "Interrupted", "message": message}, "cancelled": [*progress.cancelled]})
    return exits.INTERRUPTED
