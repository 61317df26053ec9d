"""The generated parts of docs/performance.md, made of the result files and of nothing else."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import profile_report, works_report
from benchmarks.cost_model import CONNECTIONS_PER_PROCESS, Load, bill, measured_cost
from benchmarks.limits import (
    FEWEST_PAIRS,
    LIMITS,
    PERDURE,
    Limit,
    Standing,
    holds,
    last_with,
    name_of,
    rounds_of,
    standing,
)
from benchmarks.markdown import day, fill, number, table
from benchmarks.plot import draw
from benchmarks.results import ROOT, Result, read

PAGE = ROOT / "docs" / "performance.md"
PLOT = ROOT / "docs" / "performance.svg"
NOTHING = "Nothing was measured yet."
_ALONE = {
    "w6": "the run completes; history per execution at most 5 MB",
    "w7": "1 viewer: added delay at p99 at most 25 ms; 1,000 viewers all complete",
    "w8": "new worker ready to the workflow's next step: p50 at most 4 s, the last of 50 at most 7 s",
    "w9": "p99 of any page at most 10 ms, of a filter that keeps 0.2 % at most 50 ms",
    "w10": "no worker memory for an idle session; to wake one at most 1.5 times a first turn",
}
"""What is promised of the works that Perdure does alone."""
_PROFILE = "profile"


def main() -> None:
    """Write the page and the plot anew."""
    for file in write(read(), PAGE, PLOT):
        sys.stdout.write(f"{file}\n")


def write(results: Sequence[Result], page: Path, plot: Path) -> list[Path]:
    """Fill a page and draw its plot; returns the files. Without anything to draw there is no plot."""
    page.write_text(fill(page.read_text(encoding="utf-8"), parts(results)), encoding="utf-8")
    drawn = draw(results)
    if drawn is None:
        plot.unlink(missing_ok=True)
        return [page]
    plot.write_text(drawn, encoding="utf-8")
    return [page, plot]


def parts(results: Sequence[Result]) -> dict[str, str]:
    """Each generated part by its name."""
    return {
        "where": where(results),
        "limits": limits(results),
        "plot": NOTHING if draw(results) is None else f"![CPU per step of each runtime]({PLOT.name})",
        "works": works_report.works(results) or NOTHING,
        "alone": alone(results) or NOTHING,
        "profile": profile(results) or NOTHING,
        "cost_model": cost_model(results) or NOTHING,
    }


def where(results: Sequence[Result]) -> str:
    """On what the figures of this page were measured, and with which versions."""
    shown = _shown(results)
    if not shown:
        return NOTHING
    rows = [
        [
            _about(one), day(one.date), one.revision, f"{one.machine.cores} of {one.machine.cpu}",
            number(one.machine.memory_bytes / 2**30), one.machine.python,
            ", ".join(f"{name} {value}" for name, value in sorted(one.settings.items())),
        ]
        for one in shown
    ]  # fmt: skip
    found: dict[str, dict[str, None]] = {}
    for one in shown:
        for packages in one.versions.values():
            for package, version in packages.items():
                found.setdefault(package, {})[version] = None
    versions = ", ".join(f"{package} {' and '.join(found[package])}" for package in sorted(found))
    columns = ("Work", "Day", "Revision", "Cores", "GiB", "Python", "Settings")
    return table(columns, rows) + f"\n\nVersions: {versions}."


def limits(results: Sequence[Result]) -> str:
    """Every promise, what was measured, and whether it is kept."""
    rows = [_limit_row(results, limit) for limit in LIMITS]
    for kind, promise in _ALONE.items():
        rows += _alone_limits(results, kind) or [[kind.upper(), "-", promise, "", "not measured yet", "", ""]]
    columns = ("Work", "Against", "Figure", "At most", "Measured", "Holds", "Against its best setting")
    return table(columns, rows)


def alone(results: Sequence[Result]) -> str:
    """All figures of W6 to W10, by the last result of each."""
    texts: list[str] = []
    for kind in _ALONE:
        result = _last(results, kind)
        if result is None:
            continue
        rows = [
            [_measure(row), number(row["value"]), row["unit"], _bound(row), _yes(row["holds"]), row["why"]]
            for row in result.rows
        ]
        columns = ("Figure", "Measured", "Unit", "Limit", "Holds", "Remark")
        texts.append(f"### {kind.upper()}, {day(result.date)}\n\n{table(columns, rows)}")
    return "\n\n".join(texts)


def profile(results: Sequence[Result]) -> str:
    """Where the time goes, by the last look at it."""
    result = _last(results, _PROFILE)
    return "" if result is None else profile_report.profile(result)


def cost_model(results: Sequence[Result], load: Load | None = None) -> str:
    """What an installation of some size needs, each line with its arithmetic."""
    result = last_with(results, "W1", PERDURE)
    if result is None:
        return ""
    load = load or Load()
    cost = measured_cost([*rounds_of(result, "W1", PERDURE).values()])
    need, rate, busy = bill(cost, load), f"{load.steps_per_second:,} steps/s", f"{load.busy:.0%} of a core"

    def cpu(ms: float) -> str:
        return f"{number(ms)} ms x {rate} / {busy}"

    rows = [
        ["Runs in flight", f"{rate} x {load.step_s:g} s a step", f"{need.active_runs:,}"],
        ["Worker processes, one core each", cpu(cost.cpu_ms.get("worker", 0)), f"{need.worker_processes:,}"],
        ["Their memory, GB", f"processes x {number(cost.worker_bytes / 1e6)} MB", number(need.worker_gb)],
        ["API processes, one core each", cpu(cost.front_ms), f"{need.api_processes:,}"],
        ["Cores of Temporal", cpu(cost.cpu_ms.get("temporal", 0)), f"{need.temporal_cores:,}"],
        [
            "Shards of Temporal", f"{rate} / {number(cost.steps_per_second)} of one shard / {load.busy:.0%}, as a power of 2",
            f"{need.shards:,}",
        ],
        ["Cores of PostgreSQL, without Temporal's store", cpu(cost.cpu_ms.get("postgres", 0)), f"{need.postgres_cores:,}"],
        ["Connections to PostgreSQL", f"{CONNECTIONS_PER_PROCESS} x worker and API processes", f"{need.connections:,}"],
        ["Rows, GB a day", f"{number(cost.stored_bytes)} B x {rate}", number(need.rows_gb_per_day)],
        [
            "Rows of all sessions, GB",
            f"{number(cost.stored_bytes)} B x {load.steps_per_session} steps x {load.sessions:,} sessions", number(need.kept_gb),
        ],
        ["History, GB a day", f"{number(cost.history_bytes)} B x {rate}", number(need.history_gb_per_day)],
        ["History that is kept, GB", f"{load.retention_days} days of it", number(need.history_kept_gb)],
    ]  # fmt: skip
    assumed = (
        f"{rate} over all runs, {load.step_s:g} s a step with model and tools, cores {load.busy:.0%} busy, {load.sessions:,} "
        f"kept sessions of {load.steps_per_session} steps, histories kept for {load.retention_days} days"
    )
    by = f"by W1 of {day(result.date)}, revision {result.revision}"
    return f"{table(('Needed', 'Of', 'Result'), rows)}\n\nAssumed: {assumed}. Measured: {by}."


def _shown(results: Sequence[Result]) -> list[Result]:
    """The results that a figure of the page is of, oldest first."""
    used = [
        *works_report.used(results),
        *(one for kind in (*_ALONE, _PROFILE) if (one := _last(results, kind)) is not None),
    ]
    return [one for one in results if any(one is other for other in used)]


def _about(result: Result) -> str:
    works = sorted({one.work for one in result.measurements})
    return ", ".join(works) or result.kind.upper()


def _last(results: Sequence[Result], kind: str) -> Result | None:
    return next((one for one in reversed(results) if one.kind == kind), None)


def _limit_row(results: Sequence[Result], limit: Limit) -> list[str]:
    found, best = standing(results, limit), standing(results, limit, best=True) if limit.theirs else None
    who = " or ".join(name_of(one) for one in limit.theirs) or "itself"
    ours = limit.work if limit.ours == PERDURE else f"{limit.work}, {name_of(limit.ours).partition(', ')[2]}"
    if found is None:
        return [ours, who, limit.measure.name, f"{limit.at_most:.2f}", "not measured yet", "", ""]
    against = name_of(found.against) if found.against else who
    kept = holds(limit, found)
    said = f"fewer than {FEWEST_PAIRS} pairs" if kept is None else _yes(kept)
    return [
        ours,
        against,
        limit.measure.name,
        f"{limit.at_most:.2f}",
        _ratio(found),
        said,
        _ratio(best) if best else "",
    ]


def _ratio(found: Standing) -> str:
    ratio = found.ratio
    return f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f}), {ratio.pairs} pairs"


def _alone_limits(results: Sequence[Result], kind: str) -> list[list[str]]:
    result = _last(results, kind)
    rows = [] if result is None else [row for row in result.rows if row["holds"] is not None]
    return [
        [
            kind.upper(), "-", _measure(row), _bound(row),
            "not measured" if row["value"] is None else f"{number(row['value'])} {row['unit']}", _yes(row["holds"]), "",
        ]
        for row in rows
    ]  # fmt: skip


def _measure(row: Any) -> str:
    return str(row["measure"]).replace("|", "/")


def _bound(row: Any) -> str:
    low, high = row["at_least"], row["at_most"]
    least = "" if low is None else f"at least {number(low)}"
    most = "" if high is None else f"at most {number(high)}"
    return ", ".join(bound for bound in (least, most) if bound)


def _yes(kept: bool | None) -> str:
    return "" if kept is None else "yes" if kept else "**no**"
