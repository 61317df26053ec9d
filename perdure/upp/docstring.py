"""What a function's Google-style docstring says about it and its parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass

_SECTION = re.compile(r"(Args|Arguments|Parameters|Returns|Yields|Raises|Example|Examples|Note|Notes|Source):\s*")
_ARGUMENT_SECTIONS = ("Args:", "Arguments:", "Parameters:")
_ENTRY = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)")


@dataclass(frozen=True, slots=True)
class FunctionDoc:
    """A docstring's first paragraph on one line, and its parameters' texts by name."""

    summary: str
    parameters: dict[str, str]


def read_docstring(function: Callable[..., object]) -> FunctionDoc:
    """Returns what the docstring says; what it does not say is empty."""
    lines = (inspect.getdoc(function) or "").splitlines()
    summary: list[str] = []
    for line in lines:
        if not line.strip() or _SECTION.fullmatch(line):
            break
        summary.append(line.strip())
    return FunctionDoc(" ".join(summary), _read_parameters(lines))


def _read_parameters(lines: list[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    name, entry_indent = "", 0
    for line in _argument_lines(lines):
        indent = len(line) - len(line.lstrip())
        entry = _ENTRY.fullmatch(line.strip())
        if entry is not None and (not name or indent <= entry_indent):
            name, entry_indent = entry["name"], indent
            texts[name] = entry["text"].strip()
        elif name:
            texts[name] = f"{texts[name]} {line.strip()}".strip()
    return {name: text for name, text in texts.items() if text}


def _argument_lines(lines: list[str]) -> list[str]:
    """Returns the indented, non-blank lines below `Args:`."""
    found: list[str] = []
    inside = False
    for line in lines:
        if line and not line[0].isspace():
            inside = line.strip() in _ARGUMENT_SECTIONS
        elif inside and line.strip():
            found.append(line)
    return found
