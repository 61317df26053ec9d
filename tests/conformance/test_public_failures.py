"""Failures that were reported of other runtimes: each has tests that bear its name, or a reason why it says nothing of this one."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MAP = Path(__file__).with_name("public_failures.toml")
ROWS: dict[str, dict[str, Any]] = tomllib.loads(MAP.read_text(encoding="utf-8"))
KNOWN = [
    "L01",
    "L02",
    "L04",
    "L06",
    "L07",
    "L08",
    "L11",
    "L12",
    "L13",
    "L15",
    "L17",
    "L19",
    "L21",
    "L23",
    "L24",
    "L25",
    "L28",
    "L31",
    "L32",
    "L33",
    "L35",
    "L36",
    "L37",
    "L40",
    "L41",
    "L42",
    "L43",
    "L45",
    "L48",
    "L49",
    "L50",
    "L51",
    "L53",
    "L73",
    "L74",
    "L75",
    "L76",
    "L77",
    "L79",
    "L80",
    "L81",
    "L83",
    "L84",
    "L85",
    "L87",
    "L88",
    "L89",
    "L91",
    "L92",
    "L93",
    "L94",
    "L96",
    "L97",
    "L99",
    "L100",
    "L101",
    "L102",
    "L103",
    "S01",
    "S03",
    "S04",
    "S05",
    "S06",
    "S07",
    "S08",
    "S09",
    "S10",
    "S11",
    "S12",
    "S14",
    "S15",
    "S16",
    "S17",
    "S19",
    "S20",
    "S21",
    "S22",
    "S23",
    "S25",
    "S26",
    "S27",
    "S28",
    "S29",
    "S30",
    "S31",
    "S32",
    "S33",
    "S34",
    "S35",
    "S36",
    "S38",
    "S41",
    "S43",
    "S44",
    "S45",
    "S48",
    "S49",
    "S50",
    "S51",
    "S52",
    "S53",
    "S54",
    "S55",
    "S56",
    "S57",
    "S58",
]
"""Two writers, cancelling, crashes, approvals, streaming, lists, security, databases; and runtimes on Temporal."""
_ROWS_OF_A_NAME = re.compile(r"(?<=_)[ls]\d{2,3}(?=_)")
_ROWS_OF_A_DOCSTRING = re.compile(r"(?:[LS]\d{2,3}(?:, )?)+(?=:)")


@cache
def _tests_of(path: str) -> dict[str, set[str]]:
    """The test functions of a file, each with the rows that its name or the head of its docstring bears."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            rows = {row.upper() for row in _ROWS_OF_A_NAME.findall(node.name)}
            head = _ROWS_OF_A_DOCSTRING.match(ast.get_docstring(node) or "")
            found[node.name] = rows | set(head[0].split(", ") if head else ())
    return found


def test_every_row_is_in_the_map() -> None:
    """And nothing else is; in the order of the list."""
    assert list(ROWS) == KNOWN


@pytest.mark.parametrize("row", KNOWN)
def test_a_row_has_tests_or_a_reason(row: str) -> None:
    """One of both. A reason is a sentence; a test that is named exists and bears the row's name."""
    entry = ROWS[row]
    assert set(entry) in ({"tests"}, {"left_out"})
    if "left_out" in entry:
        assert re.fullmatch(r"[A-Z].{30,}\.", entry["left_out"])
        return
    assert entry["tests"]
    for test in entry["tests"]:
        path, _, name = test.partition("::")
        assert (ROOT / path).is_file(), test
        assert row in _tests_of(path).get(name, set()), f"{test} does not exist, or does not bear the name {row}"
