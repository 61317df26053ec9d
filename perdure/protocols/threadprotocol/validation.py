"""Reading a thread from JSON: strictly, with everything that is wrong, or leniently, mending what can be mended."""

from __future__ import annotations

from dataclasses import dataclass

from perdure.protocols.threadprotocol.mending import mend_actions, mend_head
from perdure.protocols.threadprotocol.models import Thread, ThreadHead
from perdure.protocols.threadprotocol.parsing import parse
from perdure.protocols.threadprotocol.problem import InvalidThread, Problem
from perdure.protocols.threadprotocol.rules import (
    Actions,
    agent_id_rule,
    agents_rule,
    canonical_rule,
    lineage_rule,
    naming_rule,
    sequence_rule,
    timestamp_rule,
    tool_rule,
)
from perdure.upp.json_value import JSONValue


@dataclass(frozen=True, slots=True)
class Mended:
    """A thread that holds to every rule, and what was wrong with the document that it was made of."""

    thread: Thread
    problems: tuple[Problem, ...]


def problems_of(value: JSONValue, *, closed: bool = False) -> list[Problem]:
    """All that is wrong with a document, warnings included; none for a sound thread.

    Args:
        value: the JSON.
        closed: no more returns will come, so that a call without one is an error.
    """
    parsed = parse(value)
    faults = parsed.problems
    return faults if parsed.head is None else [*faults, *_broken_rules(parsed.head, parsed.actions, closed=closed)]


def read_thread(value: JSONValue, *, closed: bool = False) -> Thread:
    """The thread of a document that holds to every rule; times are in UTC, unknown members are kept.

    Args:
        value: the JSON.
        closed: no more returns will come, so that a call without one is an error.

    Raises:
        InvalidThread: it does not; with all problems, each with its path and remedy.
    """
    problems = problems_of(value, closed=closed)
    if any(problem.severity == "error" for problem in problems):
        raise InvalidThread(problems)
    parsed = parse(value)
    assert parsed.head is not None, "a head that cannot be read is an error"
    return with_actions(parsed.head, parsed.actions)


def read_leniently(value: JSONValue) -> Mended:
    """A sound thread of as much of the document as can be kept.

    Actions that cannot be read, second calls of one id and returns without a call are left out; actions are numbered
    anew in the list's order, a time that goes back becomes the one before it, an unknown agent is registered under its id.

    Raises:
        InvalidThread: the thread's own members (version, ids, times, title, agents, the list itself) cannot be read, or a
            value has no canonical form.
    """
    problems = problems_of(value)
    listed = value.get("actions") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(listed, list):
        raise InvalidThread(problems)
    in_order: list[JSONValue] = [
        {**item, "sequence": number} if isinstance(item, dict) else item for number, item in enumerate(listed, start=1)
    ]
    parsed = parse({**value, "actions": in_order})
    if parsed.head is None:
        raise InvalidThread(problems)
    actions = mend_actions(list(parsed.actions.values()), parsed.head.created_at)
    thread = with_actions(mend_head(parsed.head, actions), dict(enumerate(actions)))
    left = [problem for problem in problems_of(thread.to_json()) if problem.severity == "error"]
    if left:
        raise InvalidThread(left)
    return Mended(thread, tuple(problems))


def with_actions(head: ThreadHead, actions: Actions) -> Thread:
    """The thread of a head and its actions."""
    known = {name: getattr(head, name) for name in ThreadHead.model_fields}
    return Thread.model_validate({**known, "actions": list(actions.values()), **head.extensions})


def _broken_rules(head: ThreadHead, actions: Actions, *, closed: bool) -> list[Problem]:
    return [
        *agents_rule(head),
        *lineage_rule(head),
        *sequence_rule(actions),
        *agent_id_rule(head, actions),
        *timestamp_rule(head, actions),
        *tool_rule(actions, closed=closed),
        *naming_rule(actions),
        *canonical_rule(head, actions),
    ]
