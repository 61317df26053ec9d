"""docs/performance.md is what the result files make of it, and the parts say what the results say."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks import report
from benchmarks.findings import Finding
from benchmarks.limits import LIMITS
from benchmarks.markdown import fill, number, table
from benchmarks.plot import draw
from benchmarks.results import append, read
from tests.unit.benchmarks.measured import cpu, result, rounds

SVG = "{http://www.w3.org/2000/svg}"


def row_of(text: str, *words: str) -> list[str]:
    """The cells of the one line of a table that has all these words."""
    [line] = [line for line in text.splitlines() if all(word in line for word in words)]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_page_is_what_the_results_make() -> None:
    """Every generated part, and the plot, equal what the checked-in result files give; `make` them with the report."""
    results, page = read(), report.PAGE.read_text(encoding="utf-8")
    assert page == fill(page, report.parts(results)), "run `python -m benchmarks report`"
    drawn = report.PLOT.read_text(encoding="utf-8") if report.PLOT.exists() else None
    assert drawn == draw(results), "run `python -m benchmarks report`"


def test_without_results_every_part_says_so() -> None:
    """Nothing is shown that was not measured; each promise stands there as not measured yet."""
    made = report.parts([])
    assert {made[name] for name in ("where", "plot", "works", "alone", "cost_model")} == {"Nothing was measured yet."}
    assert made["limits"].count("not measured yet") == len(LIMITS) + 5
    assert draw([]) is None


def test_a_limit_that_is_kept() -> None:
    """Half the CPU of the floor that inserts rows is 0.50 of it, with its interval and its pairs."""
    ours = rounds("perdure", cpu_ms=cpu(3, 2, 0))
    made = report.limits([result([*ours, *rounds("floor+rows", cpu_ms=cpu(5, 4, 1))])])
    cells = row_of(made, "W1", "inserts the same rows", "CPU per step")
    assert cells[3:6] == ["1.10", "0.50 (0.50 to 0.50), 9 pairs", "yes"]


def test_a_limit_that_is_broken() -> None:
    """Twice the time per step is told as what it is."""
    ours = rounds("perdure", alone_ms=(2000.0,))
    made = report.limits([result([*ours, *rounds("floor", alone_ms=(1000.0,))])])
    assert row_of(made, "W1", "hand-written floor", "ms per step")[4:6] == ["2.00 (2.00 to 2.00), 9 pairs", "**no**"]


def test_the_better_peer_counts_and_its_best_setting_stands_beside() -> None:
    """Of two peers the cheaper one is what Perdure is held against."""
    measured = [
        *rounds("perdure", cpu_ms=cpu(6, 4)),
        *rounds("pydantic_ai_temporal", cpu_ms=cpu(30, 20)),
        *rounds("openai_agents_temporal", cpu_ms=cpu(15, 5)),
        *rounds("pydantic_ai_temporal+best", cpu_ms=cpu(10, 2.5)),
    ]
    cells = row_of(report.limits([result(measured)]), "| W1 |", "OpenAI Agents", "CPU per step")
    assert cells[1] == "OpenAI Agents on Temporal"
    assert cells[4:] == ["0.50 (0.50 to 0.50), 9 pairs", "yes", "0.80 (0.80 to 0.80), 9 pairs"]


def test_the_driver_does_not_count() -> None:
    """The load is not what is measured: its CPU is left out on both sides."""
    ours = rounds("perdure", cpu_ms=cpu(3, 2, 0, driver=50))
    made = report.limits([result([*ours, *rounds("floor+rows", cpu_ms=cpu(5, 4, 1, driver=0))])])
    assert "0.50 (0.50 to 0.50)" in row_of(made, "W1", "inserts the same rows", "CPU per step")[4]


def test_few_pairs_keep_no_promise() -> None:
    """With fewer than nine pairs the ratio is shown, and nothing is said of the limit."""
    made = report.limits([result([*rounds("perdure", 5), *rounds("floor", 5)])])
    assert row_of(made, "W1", "hand-written floor", "ms per step")[5] == "fewer than 9 pairs"


def test_the_last_result_counts(tmp_path: Path) -> None:
    """Later results replace earlier ones, contestant by contestant; those of smoke runs are no results."""
    early = result([*rounds("perdure"), *rounds("floor", alone_ms=(500.0,))], date="2026-11-01T00:00:00+00:00")
    late = result([*rounds("perdure"), *rounds("floor", alone_ms=(1000.0,))], date="2026-11-02T00:00:00+00:00")
    for one in (late, early):
        append(one, tmp_path)
    made = report.limits(read(tmp_path))
    assert row_of(made, "W1", "hand-written floor", "ms per step")[4].startswith("1.00")
    assert row_of(report.where(read(tmp_path)), "W1")[1] == "2026-11-02"


def test_a_session_is_held_against_itself() -> None:
    """W5: the last 20 turns as a multiple of the first 20."""
    turns = (10.0,) * 20 + (11.0,) * 160 + (12.0,) * 20
    made = report.limits([result(rounds("perdure", work="W5", alone_ms=turns, steps_alone=1, runs=1, steps=200))])
    assert row_of(made, "W5")[4:6] == ["1.20 (1.20 to 1.20), 9 pairs", "**no**"]


def test_a_works_table_has_a_line_for_each_runtime() -> None:
    """Per step: milliseconds alone, CPU by role, events, bytes of history and of rows."""
    made = report.parts([result([*rounds("floor"), *rounds("perdure", cpu_ms=cpu(10, 8, 4))])])["works"]
    ours, floor = row_of(made, "| Perdure |"), row_of(made, "| hand-written floor |")
    assert ours[1:11] == [
        "100",
        "22.0",
        "10.0",
        "0",
        "8.00",
        "4.00",
        "50.0",
        "12.0",
        "2,000",
        "3,000",
    ]
    assert ours[11:13] == ["100", "-"]
    assert floor[12].startswith("2.00 (2.00 to 2.00)")
    assert made.index("| Perdure |") < made.index("| hand-written floor |")


def test_what_perdure_does_alone_is_told_with_its_limits() -> None:
    """W6 to W10 stand among the promises where they have a limit, and in full below."""
    found = [
        Finding("history of the largest execution", 6.2, "MB", at_most=5.0, why="long answers"),
        Finding("executions", 4, "executions"),
        Finding("model calls", None, "calls", at_least=1000),
    ]
    results = [result(kind="w6", rows=[one.to_row("W6", {}) for one in found])]
    made = report.parts(results)
    assert row_of(made["limits"], "W6", "largest execution")[3:6] == ["at most 5.00", "6.20 MB", "**no**"]
    assert row_of(made["limits"], "W6", "model calls")[3:6] == ["at least 1,000", "not measured", "**no**"]
    assert row_of(made["alone"], "executions |", "| 4.00")[4:] == ["", ""]
    assert "not measured yet" in " ".join(row_of(made["limits"], "W7"))
    assert "W6" in row_of(made["where"], "2026-11-29")[0]


def test_the_versions_are_told_once() -> None:
    """Where it was measured names machine, revision and each package."""
    made = report.where([result(rounds("perdure"))])
    assert "2 of A processor" in made
    assert made.endswith("Versions: postgresql 18.0, temporalio 1.35.0.")


def test_the_plot_is_to_scale() -> None:
    """A well-formed picture in which a bar's length is its CPU time."""
    drawn = draw([result([*rounds("perdure", cpu_ms=cpu(5, 5)), *rounds("floor", cpu_ms=cpu(10, 10))])])
    assert drawn is not None
    widths: dict[float, list[float]] = {}
    for bar in ET.fromstring(drawn).iter(f"{SVG}rect"):
        if bar.get("height") == "16.0":
            widths.setdefault(float(bar.get("y", "")), []).append(float(bar.get("width", "")))
    ours, floor = (sum(found) for _, found in sorted(widths.items()))
    assert floor == pytest.approx(2 * ours, rel=0.01)
    assert "Perdure" in drawn
    assert "W1: 10 steps" in drawn


def test_the_report_writes_page_and_plot(tmp_path: Path) -> None:
    """The page's parts are filled, what is written by hand is left, and a plot of nothing is taken away."""
    page, plot = tmp_path / "page.md", tmp_path / "performance.svg"
    names = report.parts([])
    page.write_text("By hand.\n" + "".join(f"<!-- generated: {name} -->\nstale\n<!-- end -->\n" for name in names))
    plot.write_text("stale")
    assert report.write([result(rounds("perdure"))], page, plot) == [page, plot]
    assert page.read_text().startswith("By hand.\n<!-- generated: where -->\n| Work |")
    assert "stale" not in page.read_text()
    assert plot.read_text().startswith("<svg ")
    assert report.write([], page, plot) == [page]
    assert not plot.exists()


def test_a_page_without_a_part_is_refused() -> None:
    """A part that has no place, or a place that has no part, is an error and not left out."""
    page = "<!-- generated: a -->\n<!-- end -->\n"
    assert fill(page, {"a": "one\n"}) == "<!-- generated: a -->\none\n<!-- end -->\n"
    for parts in ({}, {"b": "x"}, {"a": "x", "b": "y"}):
        with pytest.raises(ValueError, match="the page has the parts"):
            fill(page, parts)


@pytest.mark.parametrize(
    ("value", "shown"), [(1234.5, "1,234"), (99.95, "100.0"), (12.34, "12.3"), (0.567, "0.57"), (0, "0"), (None, "-")]
)
def test_numbers_have_three_digits(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_numbers_stand_on_the_right() -> None:
    assert table(("a", "b"), [["x", "1,000"], ["y", "-"]]).splitlines()[1] == "| --- | ---: |"
