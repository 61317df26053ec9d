"""Crash points: named places at which a process kills itself on demand, so that a test can stop it exactly there.

`PERDURE_CRASH_AT=name` kills at the first passing of that point in a process; `name#3` at the third; a `file` in
`PERDURE_CRASH_ONCE` makes it happen once over all processes: whoever creates the file dies. Without the variable a point
costs one dictionary look-up.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from functools import cache

CRASH_POINTS = (
    "begin_run.storing",
    "begin_run.stored",
    "make_change.storing",
    "make_change.stored",
    "generate.begun",
    "generate.buying",
    "generate.bought",
    "generate.storing",
    "generate.stored",
    "generate.reporting",
    "deltas.storing",
    "deltas.stored",
    "open_child.storing",
    "open_child.stored",
    "call_tool.begun",
    "call_tool.claiming",
    "call_tool.claimed",
    "call_tool.running",
    "call_tool.ran",
    "approval.asking",
    "approval.asked",
    "answer.stored",
    "child_outcome.found",
    "stage_bodies.storing",
    "stage_bodies.stored",
    "content.storing",
    "content.stored",
    "remote.asking",
    "remote.asked",
    "remote.signed",
    "remote.kept",
    "remote.delivered",
    "remote.frames_kept",
    "remote.answering",
    "remote.answered",
    "call_tool.storing",
    "call_tool.stored",
    "call_tool.reporting",
    "keep_turn.begun",
    "keep_turn.stored",
    "call_user.begun",
    "call_user.called",
    "call_user.reporting",
    "around.begun",
    "around.entered",
    "around.entry_storing",
    "around.entry_stored",
    "around.told",
    "around.left",
    "around.outcome_storing",
    "around.outcome_stored",
    "around.reporting",
    "record.storing",
    "record.stored",
    "end_run.storing",
    "end_run.stored",
    "uamp.asked",
    "uamp.submitted",
    "envelope.kept",
    "envelope.submitted",
    "envelope.begun",
    "envelope.cancelling",
    "envelope.inform_taken",
    "envelope.inform_submitted",
    "envelope.answering",
    "envelope.answered",
    "pay.claimed",
    "pay.held",
    "pay.noted",
    "pay.opened",
    "settle.settling",
    "settle.settled",
    "settle.noted",
    "take_action.taking",
    "take_action.taken",
    "run_task.begun",
    "run_task.claimed",
    "run_task.ran",
    "run_task.stored",
    "run_task.reporting",
    "ask_agent.storing",
    "ask_agent.stored",
    "ask_agent.ended",
    "ask_agent.settling",
    "ask_agent.settled",
    "control_stage.storing",
    "control_stage.stored",
    "take_steers.storing",
    "take_steers.stored",
    "roll_back.storing",
    "roll_back.stored",
    "submit.stored",
    "action.stored",
    "stage_answer.stored",
    "stage_delete.ended",
    "stage_delete.emptied",
    "delete.marked",
    "delete.ended",
    "delete.emptied",
    "delete.forgetting",
)
"""Before and after each store write and each report to Temporal; and before and after each effect."""

_passed: Counter[str] = Counter()


@cache
def _wanted() -> tuple[str, int]:
    """Which point, and how often it is passed first; the environment is asked once, for a step passes a dozen of them."""
    name, _, times = os.environ.get("PERDURE_CRASH_AT", "").partition("#")
    return name, int(times or 1)


def crash_point(name: str) -> None:
    """Die here by SIGKILL if the environment says so."""
    wanted, times = _wanted()
    if wanted != name:
        return
    _passed[name] += 1
    if _passed[name] != times:
        return
    mark = os.environ.get("PERDURE_CRASH_ONCE")
    if mark is not None:
        try:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
    os.kill(os.getpid(), signal.SIGKILL)
