"""Markdown of what was measured: tables, numbers, and a page whose generated parts are between markers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_PART = re.compile(r"(<!-- generated: (?P<name>[a-z0-9_]+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)


def fill(page: str, parts: Mapping[str, str]) -> str:
    """A page with its generated parts made anew.

    Args:
        page: with `<!-- generated: NAME -->` and `<!-- end -->`, each in a line of its own, around each part.
        parts: by name.

    Raises:
        ValueError: the page lacks one of the parts, or has one that there is not.
    """
    wanted = [found["name"] for found in _PART.finditer(page)]
    if sorted(wanted) != sorted(parts):
        raise ValueError(f"the page has the parts {sorted(wanted)}, made are {sorted(parts)}")
    return _PART.sub(lambda found: f"{found[1]}{parts[found['name']].strip()}\n{found['end']}", page)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; numbers stand on the right where every cell of a column is one or a dash."""
    numeric = [all(re.fullmatch(r"[\d.,]+|-", row[place]) for row in rows) for place in range(len(columns))]
    rule = ["---:" if right else "---" for right in numeric]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (columns, rule, *rows))


def number(value: float | None) -> str:
    """A number with three digits that mean something; a dash for None."""
    if value is None:
        return "-"
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 or value == 0 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def day(date: str) -> str:
    """The day of an ISO 8601 time."""
    return date.partition("T")[0]
