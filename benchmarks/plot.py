"""The plot of docs/performance.md: CPU per step of each contestant by role, a panel for each work, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from xml.sax.saxutils import escape

from benchmarks.limits import COUNTED, MS, name_of
from benchmarks.markdown import number
from benchmarks.results import Result
from benchmarks.works_report import Entry, entries

_WORKS = {
    "W1": "W1: 10 steps",
    "W2": "W2: 50 steps",
    "W3": "W3: results of 20 KB",
    "W4": "W4: 4 tools a step",
    "W5": "W5: 200 turns of 1 step",
}
_COLOURS = {"worker": "#3b6ea5", "api": "#7fb3d5", "temporal": "#e08a3c", "postgres": "#6a9f58"}
_LABELS = {"worker": "worker", "api": "API", "temporal": "Temporal", "postgres": "PostgreSQL"}
_WIDTH, _LEFT, _RIGHT = 900, 340, 190
_BAR, _GAP, _HEAD, _LEGEND = 16, 8, 34, 44


def draw(results: Sequence[Result]) -> str | None:
    """The plot, or None if nothing of it was measured."""
    panels = {work: found for work in _WORKS if (found := entries(results, work))}
    if not panels:
        return None
    parts, top = _legend(), _LEGEND
    for work, found in panels.items():
        parts += _panel(_WORKS[work], found, top)
        top += _HEAD + len(found) * (_BAR + _GAP)
    height = top + 12
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="sans-serif" font-size="12" role="img">'
    )
    title = "<title>CPU ms per step of each runtime, by process, and ms per step of a run alone</title>"
    back = f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>'
    return "\n".join([head, title, back, *parts, "</svg>"]) + "\n"


def _legend() -> list[str]:
    parts = [_text(12, 24, "CPU ms per step", bold=True)]
    left = _LEFT
    for role in COUNTED:
        parts += [_rect(left, 14, 12, 12, role), _text(left + 17, 24, _LABELS[role])]
        left += 100
    return [*parts, _text(_WIDTH - _RIGHT + 44, 24, "(ms per step, alone)", colour="#555555")]


def _panel(title: str, found: Sequence[Entry], top: float) -> list[str]:
    most = max((entry.cpu_ms for entry in found), default=0) or 1
    scale = (_WIDTH - _LEFT - _RIGHT) / most
    parts = [_text(12, top + 18, title, bold=True)]
    for place, entry in enumerate(found):
        y = top + _HEAD - 6 + place * (_BAR + _GAP)
        parts.append(_text(_LEFT - 8, y + 12, name_of(entry.contestant), end=True))
        left = float(_LEFT)
        for role in COUNTED:
            width = entry.cpu(role) * scale
            if width > 0:
                parts.append(_rect(left, y, width, _BAR, role))
                left += width
        alone = median(map(MS.of, entry.rounds))
        parts.append(_text(left + 6, y + 12, f"{number(entry.cpu_ms)} ({number(alone)})"))
    return parts


def _rect(x: float, y: float, width: float, height: float, role: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{_COLOURS[role]}"/>'


def _text(x: float, y: float, text: str, *, bold: bool = False, end: bool = False, colour: str = "#1a1a1a") -> str:
    style = (' font-weight="bold"' if bold else "") + (' text-anchor="end"' if end else "")
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}"{style}>{escape(text)}</text>'
