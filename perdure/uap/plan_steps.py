"""Plans: their steps, the order of these, and what becomes of them when one fails.

Pure data. What a model wrote is read in `plan_answer`; running a plan is the strategy's part.
Source: UAP-1.0 sections 5.4 and 13.4.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_field import invalid, read_list, read_object, read_optional_str, read_str
from perdure.upp.json_value import JSONObject, JSONValue

_SHOWN_IDS = 10


class PlanStatus(StrEnum):
    """How far a step is. Source: UAP-1.0 section 5.4, PlanStep."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(slots=True)
class PlanStep:
    """One step of a plan. Source: UAP-1.0 section 5.4, PlanStep.

    Attributes:
        id: the model's own name for it, for example "step-1"; one of a kind in its plan.
        description: what the step does.
        tool: the tool that it is meant to use; None for none.
        depends_on: ids of steps that must be completed before it.
        status: changes as the plan is run.
    """

    id: str
    description: str
    tool: str | None = None
    depends_on: list[str] = field(default_factory=list[str])
    status: PlanStatus = PlanStatus.PENDING

    def to_json(self) -> JSONObject:
        """Returns UAP's PlanStepJSON; `tool` only if there is one."""
        tool: JSONObject = {} if self.tool is None else {"tool": self.tool}
        head: JSONObject = {"id": self.id, "description": self.description}
        return {**head, **tool, "dependsOn": [*self.depends_on], "status": str(self.status)}

    @classmethod
    def from_json(cls, value: JSONValue) -> PlanStep:
        """Returns the step of a PlanStepJSON; absent `dependsOn` is empty. What a model wrote is for `read_plan`.

        Raises:
            UPPError: INVALID_REQUEST if the value is no such object.
        """
        source, what = read_object(value, "plan step"), "plan step"
        depends_on = read_list(source, "dependsOn", what)
        status = read_str(source, "status", what)
        if status not in set(PlanStatus):
            raise invalid(what, f"unknown status {status!r:.80}; known are {', '.join(PlanStatus)}")
        ids = [item for item in depends_on if isinstance(item, str)]
        if len(ids) < len(depends_on):
            raise invalid(what, "field 'dependsOn' must be a list of strings")
        return cls(
            id=read_str(source, "id", what),
            description=read_str(source, "description", what),
            tool=read_optional_str(source, "tool", what),
            depends_on=ids,
            status=PlanStatus(status),
        )


def order_steps(steps: Sequence[PlanStep]) -> list[PlanStep]:
    """The steps in an order in which each comes after what it depends on: of those that can come next, the first given.

    Raises:
        UPPError: INVALID_RESPONSE if a step depends on one that does not exist, steps depend on each other in a
            circle, or two have one id; the message names the ids.
    """
    check_distinct(steps)
    places = {step.id: place for place, step in enumerate(steps)}
    _check_known(steps, places)
    waits_for = [{places[id_] for id_ in step.depends_on} for step in steps]
    followers: list[list[int]] = [[] for _ in steps]
    for place, others in enumerate(waits_for):
        for other in others:
            followers[other].append(place)
    ready = [place for place, others in enumerate(waits_for) if not others]  # in order, so a heap
    ordered: list[PlanStep] = []
    while ready:
        place = heapq.heappop(ready)
        ordered.append(steps[place])
        for follower in followers[place]:
            waits_for[follower].discard(place)
            if not waits_for[follower]:
                heapq.heappush(ready, follower)
    if len(ordered) < len(steps):
        raise bad_plan(f"steps depend on each other in a circle: {_list_ids(_circle(steps, waits_for), ' -> ')}")
    return ordered


def replanned(old: Sequence[PlanStep], new: Sequence[PlanStep], max_steps: int) -> list[PlanStep]:
    """The plan after a step failed: what was completed or failed, in its old order, then the new steps.

    Steps that had not run yet give way to the new ones. Dependencies of new steps on failed ones are dropped: the
    new plan was made in the knowledge of the failure, and nothing would ever meet them. A new step whose id stands in
    the old plan gets another, so that no id means two things.

    Args:
        old: the plan so far; it is not changed, nor are its steps.
        new: the new plan, as `read_plan` gives it; not changed either.
        max_steps: the most steps of the whole, at least 1. New steps above it are cut, all of them if as many have run.

    Raises:
        UPPError: INVALID_RESPONSE if two new steps have one id.
    """
    check_distinct(new)
    kept = [step for step in old if step.status in (PlanStatus.COMPLETED, PlanStatus.FAILED)]
    room = max(0, max_steps - len(kept))
    used = {step.id for step in old}
    taken = used | {step.id for step in new}
    ids: dict[str, str] = {}
    for step in new:
        ids[step.id] = unused_id(step.id, taken) if step.id in used else step.id
        taken.add(ids[step.id])
    renamed = [
        replace(step, id=ids[step.id], depends_on=[ids.get(id_, id_) for id_ in step.depends_on]) for step in new
    ]
    over = {step.id for step in renamed[room:]} | {step.id for step in kept if step.status is PlanStatus.FAILED}
    return [*kept, *without_dependencies(renamed[:room], over)]


def unused_id(wanted: str, taken: Collection[str]) -> str:
    """The id itself, or the first of `wanted-2`, `wanted-3`, ... that is not taken: counted, so that a replay agrees."""
    if wanted not in taken:
        return wanted
    return next(made for number in count(2) if (made := f"{wanted}-{number}") not in taken)


def without_dependencies(steps: Iterable[PlanStep], gone: Collection[str | None]) -> list[PlanStep]:
    """The steps, depending no more on those that are gone."""
    return [replace(step, depends_on=[id_ for id_ in step.depends_on if id_ not in gone]) for step in steps]


def check_distinct(steps: Iterable[PlanStep]) -> None:
    """Raises UPPError INVALID_RESPONSE if two steps have one id."""
    counts = Counter(step.id for step in steps)
    repeated = [id_ for id_, count in counts.items() if count > 1]
    if repeated:
        raise bad_plan(f"several steps have the id {_list_ids(repeated)}")


def _check_known(steps: Iterable[PlanStep], known: Collection[str]) -> None:
    for step in steps:
        unknown = [id_ for id_ in step.depends_on if id_ not in known]
        if unknown:
            raise bad_plan(f"step {step.id!r:.80} depends on steps that do not exist: {_list_ids(unknown)}")


def _circle(steps: Sequence[PlanStep], waits_for: Sequence[Collection[int]]) -> list[str]:
    """The ids along one circle, its first id again at the end. Only steps that wait for others are walked along."""
    path = [next(place for place, others in enumerate(waits_for) if others)]
    while path[-1] not in path[:-1]:
        path.append(min(waits_for[path[-1]]))
    return [steps[place].id for place in path[path.index(path[-1]) :]]


def _list_ids(ids: Sequence[str], between: str = ", ") -> str:
    more = [f"and {len(ids) - _SHOWN_IDS} more"] if len(ids) > _SHOWN_IDS else []
    return between.join([*(f"{id_!r:.80}" for id_ in ids[:_SHOWN_IDS]), *more])


def bad_plan(problem: str) -> UPPError:
    """The error of a plan that cannot be run."""
    return UPPError(f"the model's plan cannot be used: {problem}", ErrorCode.INVALID_RESPONSE)
