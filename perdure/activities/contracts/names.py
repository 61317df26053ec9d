"""The registered names of workflows, activities and signals. They never change."""

from __future__ import annotations

SESSION = "perdure.session"
SANDBOXED_SESSION = "perdure.session.sandboxed"
STAGE = "StageWorkflow"
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
TAKE_ACTION = "perdure.take_action"
RUN_TASK = "perdure.run_task"
ASK_AGENT = "perdure.ask_agent"
PAY = "perdure.pay"
FAIL_TASK = "perdure.fail_task"
CONTROL_STAGE = "perdure.control_stage"
ACTIVITIES = (
    *(BEGIN_RUN, GENERATE, CALL_TOOL, CALL_USER, AROUND, READ_HISTORY, KEEP_TURN, RECORD, END_RUN, TAKE_STEERS),
    *(TAKE_ACTION, RUN_TASK, FAIL_TASK, CONTROL_STAGE, ASK_AGENT, PAY),
)
"""Every name that workflows schedule; a worker that lacks one does not start."""

STAGE_ATTRIBUTE = "PerdureStage"
"""The search attribute that says in which stage a stage session is; a Keyword."""

WAKE = "wake"
PAUSE = "pause"
RESUME = "resume"
CANCEL = "cancel"
ANSWER = "answer"
STEER = "steer"
TERMINATE = "terminate"

OUTCOME = "outcome"
CLIENT_TOOL = "client_tool"
APPROVAL = "approval"
PAYMENT = "payment"
REMOTE = "remote"
