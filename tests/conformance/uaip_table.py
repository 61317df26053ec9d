"""The page of the docs on what came of the checks: made of the results' files, never by hand."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.uaip_checks import read_checks
from tests.conformance.uaip_results import FOLDER, Results

PAGE = Path(__file__).parents[2] / "docs" / "uaip-conformance.md"
OURS = FOLDER / "uaip_perdure.json"
REFERENCE = FOLDER / "uaip_reference.json"

_HEAD = """\
# UAIP conformance

The specification (UAIP 0.1.0) as 48 checks over HTTP; `tests/conformance/test_uaip_*.py` has each by its number. Checks 1, 2, 5, 6,
8-10, 13, 15, 17, 19-21, 24, 25, 30-32 and 48 are the specification's own words; the others are readings of what it leaves open,
so the first server failing one of these says that it was built to another reading, not that it broke a rule.

`PERDURE_UAIP_URL=https://host pytest tests/conformance -k test_check` makes them against any server that serves the workflows
of `tests/conformance/uaip_store.py`. The first server on PyPI serves one workflow, has its schema at `/schema`, and replies in
texts for a model: where such a reply means the same it is read so, and what it has no room for is "not applicable". As it is
installed it lacks a package that it imports (`fastmcp`), which the run adds. `python -m tests.conformance.uaip_reference`
makes both runs and writes this page.
"""


def render(ours: Results, reference: Results) -> str:
    """The page."""
    lines = [
        _HEAD,
        *(_about(results) for results in (ours, reference)),
        "",
        f"| | Asked for | {ours.server} | {reference.server} | Seen of the latter |",
        "|---|---|---|---|---|",
        *(
            _row(check.number, check.asks, ours, reference)
            for check in sorted(read_checks(), key=lambda item: item.number)
        ),
    ]
    return "\n".join(lines) + "\n"


def _about(results: Results) -> str:
    outcomes = [result.outcome for result in results.checks.values()]
    counts = ", ".join(f"{outcomes.count(kind)} {kind}" for kind in ("pass", "fail", "not applicable"))
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    return f"* **{results.server}** on {results.date}: {counts}. With {versions}."


def _row(number: int, asks: str, ours: Results, reference: Results) -> str:
    theirs = reference.checks[number]
    cells = [str(number), asks, ours.checks[number].outcome, theirs.outcome, _code(theirs.seen, theirs.outcome)]
    return f"| {' | '.join(cells)} |"


def _code(seen: str, outcome: str) -> str:
    """What a server said, as it said it; a reason is text of ours."""
    if outcome != "fail" or not seen:
        return seen
    return f"`{seen.replace('`', chr(39)).replace('|', chr(0xA6))}`"
