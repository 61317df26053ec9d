"""The registered names of workflows, activities and signals. They never change."""

from __future__ import annotations

SESSION = "perdure.session"
SANDBOXED_SESSION = "perdure.session.sandboxed"
BEGIN_RUN = "perdure.begin_run"
GENERATE = "perdure.generate"
CALL_TOOL = "perdure.call_tool"
CALL_USER = "perdure.call_user"
AROUND = "perdure.around"
READ_HISTORY = "perdure.read_history"
KEEP_TURN = "perdure.keep_turn"
RECORD = "perdure.record"
END_RUN = "perdure.end_run"
TAKE_STEERS = "perdure.take_steers"
ACTIVITIES = (BEGIN_RUN, GENERATE, CALL_TOOL, CALL_USER, AROUND, READ_HISTORY, KEEP_TURN, RECORD, END_RUN, TAKE_STEERS)
"""Every name that workflows schedule; a worker that lacks one does not start."""

WAKE = "wake"
PAUSE = "pause"
RESUME = "resume"
CANCEL = "cancel"
ANSWER = "answer"
STEER = "steer"

OUTCOME = "outcome"
CLIENT_TOOL = "client_tool"
APPROVAL = "approval"
