"""What is promised of W1 to W5: each figure against whom, how much at most, and whether the results keep it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.measure import WORKER_AND_TEMPORAL, Measurement
from benchmarks.pairs import Ratio, interval, paired
from benchmarks.results import Result

COUNTED = ("worker", "api", "temporal", "postgres")
"""The roles whose CPU counts; a driver is the load, not what is measured."""

FEWEST_PAIRS = 9
BEST = "+best"
PERDURE = "perdure"
_TOOLS_SHORT = "perdure+short_tools"
_ALL_SHORT = "perdure+short_tools+short_model"
_LANGGRAPH_SYNC = "langgraph_postgres+durability=sync"
_TEMPORAL_PEERS = ("pydantic_ai_temporal", "openai_agents_temporal")

NAMES = {
    PERDURE: "Perdure",
    _TOOLS_SHORT: "Perdure, tools short",
    _ALL_SHORT: "Perdure, tools and model short",
    "floor": "hand-written floor",
    "floor+rows": "floor that inserts the same rows",
    "pydantic_ai_temporal": "Pydantic AI on Temporal",
    "openai_agents_temporal": "OpenAI Agents on Temporal",
    "dbos_pydantic_ai": "DBOS with Pydantic AI",
    "langgraph_postgres": "LangGraph, Postgres saver",
    _LANGGRAPH_SYNC: "LangGraph, Postgres saver (sync)",
}
"""What readers know contestants as."""


@dataclass(frozen=True)
class Measure:
    """A figure of a measurement, and what it is called."""

    name: str
    of: Callable[[Measurement], float]


MS = Measure("ms per step", lambda one: one.ms_per_step)
CPU = Measure("CPU per step", lambda one: one.cpu_per_step(COUNTED))
CPU_WORKER_TEMPORAL = Measure("CPU per step, worker and Temporal", lambda one: one.cpu_per_step(WORKER_AND_TEMPORAL))
HISTORY = Measure("history bytes", lambda one: one.history_bytes)
STORED = Measure("all stored bytes", lambda one: one.all_stored_bytes)
GROWTH = Measure("last 20 turns against the first 20, ms per turn", lambda one: one.last_over_first())


@dataclass(frozen=True)
class Limit:
    """A figure of ours, as a multiple of the same of another contestant.

    Attributes:
        work: "W1" to "W5".
        theirs: contestants, of whom the better counts; none if the figure is a ratio by itself.
        measure: what is compared.
        at_most: the limit.
        ours: our contestant.
    """

    work: str
    theirs: tuple[str, ...]
    measure: Measure
    at_most: float
    ours: str = PERDURE


LIMITS = (
    *(
        Limit(work, (floor,), measure, at_most)
        for work in ("W1", "W4")
        for floor, at_most, cpu in (("floor", 1.15, CPU_WORKER_TEMPORAL), ("floor+rows", 1.10, CPU))
        for measure in (cpu, MS)
    ),
    Limit("W1", _TEMPORAL_PEERS, CPU, 0.75),
    Limit("W2", _TEMPORAL_PEERS, CPU, 0.5),
    Limit("W2", _TEMPORAL_PEERS, HISTORY, 0.15),
    Limit("W2", _TEMPORAL_PEERS, STORED, 0.35),
    Limit("W3", _TEMPORAL_PEERS, CPU, 0.55),
    Limit("W4", _TEMPORAL_PEERS, CPU, 0.7),
    Limit("W1", _TEMPORAL_PEERS, MS, 0.65, _TOOLS_SHORT),
    Limit("W1", _TEMPORAL_PEERS, CPU, 0.55, _TOOLS_SHORT),
    Limit("W1", ("dbos_pydantic_ai",), MS, 0.6, _ALL_SHORT),
    Limit("W1", (_LANGGRAPH_SYNC,), MS, 1.6, _ALL_SHORT),
    Limit("W5", (), GROWTH, 1.10),
)


@dataclass(frozen=True)
class Standing:
    """What a limit has come to.

    Attributes:
        against: the contestant; "" where there is none.
        ratio: measured.
        date: of the result.
    """

    against: str
    ratio: Ratio
    date: str


def name_of(contestant: str) -> str:
    """A contestant as readers know it."""
    known, best = contestant.removesuffix(BEST), contestant.endswith(BEST)
    return NAMES.get(known, known) + (", at its best setting" if best else "")


def standing(results: Sequence[Result], limit: Limit, *, best: bool = False) -> Standing | None:
    """How a limit stands by the last results that compare the two; None if there are none.

    Args:
        results: oldest first.
        limit: which.
        best: against contestants at their best setting, in place of as they come.
    """
    if not limit.theirs:
        return _by_itself(results, limit)
    found = [_against(results, limit, one + BEST if best else one) for one in limit.theirs]
    measured = [one for one in found if one is not None]
    return max(measured, key=lambda one: one.ratio.median) if measured else None


def holds(limit: Limit, found: Standing) -> bool | None:
    """Whether a limit is kept; None if there are too few pairs to say so."""
    return found.ratio.holds(limit.at_most) if found.ratio.pairs >= FEWEST_PAIRS else None


def last_with(results: Sequence[Result], work: str, *contestants: str) -> Result | None:
    """The last result in which all of these contestants did a work."""
    for result in reversed(results):
        if set(contestants) <= {one.contestant for one in result.measurements if one.work == work}:
            return result
    return None


def rounds_of(result: Result, work: str, contestant: str) -> dict[int, Measurement]:
    """What was measured of a contestant, by round."""
    return {one.round: one for one in result.measurements if (one.work, one.contestant) == (work, contestant)}


def ratio_of(result: Result, work: str, ours: str, theirs: str, measure: Measure) -> Ratio | None:
    """A figure of two contestants of one result, paired by round; None where one of them has none."""
    first, second = rounds_of(result, work, ours), rounds_of(result, work, theirs)
    pairs = [(measure.of(first[number]), measure.of(second[number])) for number in sorted(first.keys() & second.keys())]
    usable = pairs and all(our > 0 and their > 0 for our, their in pairs)
    return paired([our for our, _ in pairs], [their for _, their in pairs]) if usable else None


def _against(results: Sequence[Result], limit: Limit, theirs: str) -> Standing | None:
    result = last_with(results, limit.work, limit.ours, theirs)
    if result is None:
        return None
    ratio = ratio_of(result, limit.work, limit.ours, theirs, limit.measure)
    return None if ratio is None else Standing(theirs, ratio, result.date)


def _by_itself(results: Sequence[Result], limit: Limit) -> Standing | None:
    result = last_with(results, limit.work, limit.ours)
    if result is None:
        return None
    figures = [limit.measure.of(one) for one in rounds_of(result, limit.work, limit.ours).values()]
    return Standing("", Ratio(median(figures), *interval(figures), len(figures)), result.date)
