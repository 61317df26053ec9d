"""No test is skipped unseen: a pytest plugin that names each and, in CI, allows only those on a list.

The list is `allowed_skips.txt` beside this file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

ALLOWED_SKIPS = Path(__file__).parent / "allowed_skips.txt"


def read_allowed(path: Path = ALLOWED_SKIPS) -> frozenset[str]:
    """The node ids that may be skipped, without comments and blank lines."""
    lines = (line.partition(" #")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return frozenset(line for line in lines if line and not line.startswith("#"))


class SkipGuard:
    """Collects tests that were skipped, expected to fail or run again, and judges them at the end.

    Args:
        allowed: node ids that may be; one without parameters allows all of its test's.
        strict: whether any other one fails the run.
    """

    def __init__(self, *, allowed: frozenset[str], strict: bool) -> None:
        self._allowed = allowed
        self._strict = strict
        self._found: dict[str, str] = {}
        self._started: set[str] = set()

    @property
    def refused(self) -> dict[str, str]:
        """What happened instead of a plain run, by node id, for tests that are not on the list."""
        return {
            nodeid: what
            for nodeid, what in self._found.items()
            if nodeid not in self._allowed and nodeid.partition("[")[0] not in self._allowed
        }

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._found[str(report.nodeid)] = "skipped whole"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        nodeid = str(report.nodeid)
        if hasattr(report, "wasxfail"):
            self._found[nodeid] = "expected to fail"
        elif report.skipped:
            self._found[nodeid] = "skipped"
        if report.when == "setup":
            if nodeid in self._started:
                self._found[nodeid] = "run again"
            self._started.add(nodeid)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self._strict and self.refused and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.refused:
            return
        verdict = "fails the run in CI" if not self._strict else "which fails the run"
        terminalreporter.section(f"not run, and not in {ALLOWED_SKIPS.name}: {verdict}")
        for nodeid, what in sorted(self.refused.items()):
            terminalreporter.line(f"{nodeid}: {what}")
