"""What the auditor found, and the report on it. A finding is a line that a plain grep for the whole words would show."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

KINDS = ("TODO", "FIXME")
_MARK = re.compile(rf"\b({'|'.join(KINDS)})\b")
_SHOWN_CHARACTERS = 160
_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """A line with a comment that waits for somebody.

    Attributes:
        kind: the first of `KINDS` in the line.
        line: from 1.
        text: the line from that word on, without the comment's closing mark.
    """

    path: str
    line: int
    kind: str
    text: str


@dataclass(slots=True)
class Audit:
    """All that the report is made of.

    Attributes:
        folder: its name.
        asked: what the user said.
        listed: how many files there are, or at least.
        complete: whether `listed` is all of them.
        read: paths of the files that were read.
        unread: reasons by path of those that could not be.
        left_out: folders that were not looked into.
    """

    folder: str
    asked: str = ""
    listed: int = 0
    complete: bool = True
    read: list[str] = field(default_factory=list[str])
    unread: dict[str, str] = field(default_factory=dict[str, str])
    left_out: list[str] = field(default_factory=list[str])
    findings: list[Finding] = field(default_factory=list[Finding])


def find_marks(path: str, text: str) -> list[Finding]:
    """The lines of a file that hold a `TODO` or `FIXME`, in order."""
    found: list[Finding] = []
    for number, line in enumerate(text.split("\n"), start=1):
        mark = _MARK.search(line)
        if mark is not None:
            found.append(Finding(path, number, mark[1], _without_closer(line[mark.start() :])))
    return found


def write_markdown(audit: Audit) -> str:
    """The report: a summary, the findings by file, and what was not read."""
    parts = [f"# TODO audit of {_code(audit.folder)}", f"Asked for: {_code(audit.asked)}", _summary(audit)]
    paths = list(dict.fromkeys(finding.path for finding in audit.findings))
    for path in paths:
        lines = [_item(finding) for finding in audit.findings if finding.path == path]
        parts.append("\n".join([f"## {_code(path)}", "", *lines]))
    if audit.unread:
        parts.append("\n".join(["## Not read", "", *_named(audit.unread)]))
    if audit.left_out:
        parts.append("Not looked into: " + ", ".join(_code(name) for name in audit.left_out) + ".")
    return "\n\n".join(parts) + "\n"


def one_line(text: str) -> str:
    """Text that is safe on a terminal: no line breaks, escape sequences or other characters that do not print."""
    return "".join(_shown(character) for character in text)


def count_words(findings: Sequence[Finding]) -> str:
    """How many there are of each kind, for example "7 TODO, 3 FIXME"."""
    counts = Counter(finding.kind for finding in findings)
    return ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind])


def _summary(audit: Audit) -> str:
    if not audit.listed:
        return "The folder holds no files; there is nothing to audit."
    read = f"{len(audit.read)} of {audit.listed} files read" if audit.unread else f"{len(audit.read)} files read"
    skipped = audit.listed - len(audit.read) - len(audit.unread)
    if skipped or not audit.complete:
        more = "" if audit.complete else "more than "
        looked_at = len(audit.read) + len(audit.unread)
        read = f"{len(audit.read)} files read; only the first {looked_at} of {more}{audit.listed} were looked at"
    if not audit.findings:
        return f"{read}. None of them holds a TODO or FIXME comment."
    files = len({finding.path for finding in audit.findings})
    return f"{read}. {len(audit.findings)} comments wait in {files} of them: {count_words(audit.findings)}."


def _item(finding: Finding) -> str:
    text = finding.text
    if len(text) > _SHOWN_CHARACTERS:
        text = text[: _SHOWN_CHARACTERS - 1] + "…"
    return f"- line {finding.line}: {_code(text)}"


def _without_closer(comment: str) -> str:
    """A comment on one line, without what ends it in its language."""
    text = " ".join(comment.split())
    return text.removesuffix("*/").removesuffix("-->").rstrip()


def _named(reasons: dict[str, str]) -> Iterable[str]:
    for path, reason in list(reasons.items())[:_MOST_NAMED]:
        yield f"- {_code(path)}: {one_line(reason)}"
    if len(reasons) > _MOST_NAMED:
        yield f"- and {len(reasons) - _MOST_NAMED} more"


def _code(text: str) -> str:
    """Text as a code span, in which Markdown leaves every character alone, whatever it holds."""
    shown = one_line(text) or " "
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * (longest + 1)
    space = " " if "`" in (shown[0], shown[-1]) else ""
    return f"{fence}{space}{shown}{space}{fence}"


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character.isspace() else "\N{REPLACEMENT CHARACTER}"
