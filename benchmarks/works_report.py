"""The tables of W1 to W5: what each contestant took, by the last result that has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.limits import COUNTED, CPU, GROWTH, MS, NAMES, PERDURE, last_with, name_of, ratio_of, rounds_of
from benchmarks.markdown import day, number, table
from benchmarks.measure import Measurement
from benchmarks.results import Result
from benchmarks.work import WORK


@dataclass(frozen=True)
class Entry:
    """A contestant's figures of a work, medians over the rounds of one result.

    Attributes:
        contestant: who.
        result: where they are from; one that has Perdure too, if there is any.
        rounds: what was measured.
    """

    contestant: str
    result: Result
    rounds: tuple[Measurement, ...]

    def cpu(self, role: str) -> float:
        """CPU ms per step of a role."""
        return median(one.cpu_ms_per_step.get(role, 0.0) for one in self.rounds)

    @property
    def cpu_ms(self) -> float:
        """CPU ms per step of all roles that count."""
        return median(map(CPU.of, self.rounds))


def entries(results: Sequence[Result], work: str) -> list[Entry]:
    """Who did a work: Perdure, floors, then peers, each as it comes and then at other settings."""
    known = {one.contestant for result in results for one in result.measurements if one.work == work}
    order = list(NAMES)
    places = {
        name: (order.index(kind) if (kind := name.removesuffix("+best")) in order else len(order)) for name in known
    }
    found: list[Entry] = []
    for name in sorted(known, key=lambda name: (places[name], name)):
        result = last_with(results, work, name, PERDURE) or last_with(results, work, name)
        if result is not None:
            found.append(Entry(name, result, tuple(rounds_of(result, work, name).values())))
    return found


def used(results: Sequence[Result]) -> list[Result]:
    """The results that a table has a line of."""
    return [entry.result for work in WORK for entry in entries(results, work)]


def works(results: Sequence[Result]) -> str:
    """A table for each work that was measured; "" if none was."""
    texts: list[str] = []
    for work in WORK:
        found = entries(results, work)
        if found:
            texts.append(f"### {work}\n\n{_table(work, found)}")
    return "\n\n".join(texts)


def _table(work: str, found: Sequence[Entry]) -> str:
    turns = WORK[work].turns > 1
    columns = (
        *("Runtime", "ms per turn" if turns else "ms per step, alone", "CPU ms per step", "of it worker", "API"),
        *("Temporal", "PostgreSQL", "steps/s", "events per step", "history B per step", "rows B per step"),
        *("worker MB", *(("last 20 turns / first 20",) if turns else ()), "Perdure's CPU / its CPU", "Day"),
    )
    return table(columns, [_row(work, entry, turns=turns) for entry in found])


def _row(work: str, entry: Entry, *, turns: bool) -> list[str]:
    rounds = entry.rounds

    def per_step(values: Sequence[float]) -> str:
        return number(median(value * one.runs / one.steps for value, one in zip(values, rounds, strict=True)))

    ratio = None if entry.contestant == PERDURE else ratio_of(entry.result, work, PERDURE, entry.contestant, CPU)
    memory = [one.memory["worker"].pss_bytes for one in rounds if "worker" in one.memory]
    return [
        name_of(entry.contestant), number(median(map(MS.of, rounds))), number(entry.cpu_ms),
        *(number(entry.cpu(role)) for role in COUNTED), number(median(one.steps_per_second for one in rounds)),
        per_step([one.events for one in rounds]), per_step([one.history_bytes for one in rounds]),
        per_step([one.stored_bytes for one in rounds]), number(median(memory) / 1e6 if memory else None),
        *((number(median(map(GROWTH.of, rounds))),) if turns else ()),
        "-" if ratio is None else f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})", day(entry.result.date),
    ]  # fmt: skip
