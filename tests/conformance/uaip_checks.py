"""The 48 checks of UAIP as the tests of this folder have them: by number, each with what it asks for."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.uaip_replies import NEEDS_ITS_PROCESSES, Form

FOLDER = Path(__file__).parent
COUNT = 48
_NAME = re.compile(r"test_check_(\d\d)_\w+")


@dataclass(frozen=True)
class Check:
    """A check.

    Attributes:
        number: in the reference.
        test: `file::name`.
        asks: what it asks for, as the docstring's first line says.
    """

    number: int
    test: str
    asks: str


def number_of(test: str) -> int | None:
    """The number of the check that a test is, by the test's name with or without parameters; None if it is none."""
    found = _NAME.match(test)
    return int(found[1]) if found else None


def read_checks() -> list[Check]:
    """All checks in the order of files and lines, as often as they are there."""
    found: list[Check] = []
    for path in sorted(FOLDER.glob("test_uaip*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                number = number_of(node.name)
                if number is not None:
                    asks = (ast.get_docstring(node) or "").partition("\n")[0]
                    found.append(Check(number, f"{path.name}::{node.name}", asks))
    return found


def left_out(form: Form) -> Mapping[int, str]:
    """The checks that say nothing of another's server of this form, with the reasons."""
    return {44: NEEDS_ITS_PROCESSES, **form.lacks}
