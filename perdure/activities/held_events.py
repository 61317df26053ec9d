"""What viewers of a run are told after its middleware has checked the answer, in place of deltas.

Of a run with output guards the log has, as it goes, what no model wrote: the beginning and end of steps, checkpoints,
that tools were called and what they returned. Nothing of its answers, its reasoning and the arguments of its calls is in
the log, or in the thread, before the checked turn is stored. They come then, in order, each with its step's number.
"""

from __future__ import annotations

from perdure.activities.stored_run import StoredRun
from perdure.uap.events import action_data, uap_event, upp_event
from perdure.uap.scaffold import REASON, scaffold_of
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage
from perdure.upp.providers.script import to_events
from perdure.upp.stream import StreamEventType
from perdure.upp.turn import Turn


def held_events(run: StoredRun, made: Turn, checked: Turn, *, answer: str, attempt: int) -> list[JSONObject]:
    """The events of a run's model calls.

    Args:
        run: its rows.
        made: the turn that it made.
        checked: the turn that came of it. If its answer is another one, the events of the run's last model call tell
            that one's text, and no reasoning, as in process.
        answer: row id of that other answer.
        attempt: of the activity.
    """
    answers = [item for item in run.stored if isinstance(item.message, AssistantMessage) and not item.discarded]
    same = made.response == checked.response
    told: list[JSONObject] = []
    for item in answers:
        is_other = not same and item is answers[-1]
        message, ident = (checked.response, answer) if is_other else (item.message, item.id)
        assert isinstance(message, AssistantMessage), "no other was taken"
        told.extend(
            upp_event(event, step=item.step, attempt=attempt, message=ident)
            for event in to_events(message, None)
            if not (is_other and event.type is StreamEventType.REASONING_DELTA)
        )
        if scaffold_of(message) == REASON:
            told.append(uap_event("reasoning", item.step, {"text": message.text}))
        elif message.tool_calls:
            told.append(uap_event("action", item.step, {**action_data(message), "message": ident}))
    return told
