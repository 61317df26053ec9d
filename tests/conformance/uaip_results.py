"""What came of the checks against a server: written while they run, read for the table of the docs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import pytest

from tests.conformance.uaip_checks import COUNT, number_of

FOLDER = Path(__file__).parent / "outcomes"
Outcome = Literal["pass", "fail", "not applicable"]
_SHOWN = 160
_OF_THIS_RUN = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32}")


@dataclass(frozen=True)
class Result:
    """What came of one check.

    Attributes:
        outcome: a check of several cases passes if all do.
        seen: of a failure, what was there instead; of what is not applicable, why.
    """

    outcome: Outcome
    seen: str = ""


@dataclass(frozen=True)
class Results:
    """What came of all checks.

    Attributes:
        server: name and version.
        date: of the run, ISO 8601.
        versions: of what the server ran on, by name.
        checks: by number.
    """

    server: str
    date: str
    versions: Mapping[str, str]
    checks: Mapping[int, Result]

    def write(self, path: Path) -> None:
        value = {**asdict(self), "checks": {f"{number:02}": asdict(result) for number, result in self.checks.items()}}
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Results:
        value = json.loads(path.read_text(encoding="utf-8"))
        checks = {int(number): Result(**result) for number, result in value.pop("checks").items()}
        return cls(**value, checks=checks)


@dataclass
class Recorder:
    """A pytest plugin that writes what came of each check into a file.

    Attributes:
        path: of a file of JSON, results by number.
        left_out: checks that are not made, with the reasons.
    """

    path: Path
    left_out: Mapping[int, str]
    _passed: set[int] = field(default_factory=set[int])
    _failed: dict[int, str] = field(default_factory=dict[int, str])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        number = number_of(report.nodeid.rpartition("::")[2])
        if number is None:
            return
        if report.failed:
            self._failed.setdefault(number, _said(report))
        elif report.when == "call" and report.passed:
            self._passed.add(number)

    def pytest_sessionfinish(self) -> None:
        checks = {number: self._result(number) for number in range(1, COUNT + 1)}
        self.path.write_text(json.dumps({number: asdict(result) for number, result in checks.items()}))

    def _result(self, number: int) -> Result:
        if number in self.left_out:
            return Result("not applicable", self.left_out[number])
        if number in self._failed:
            return Result("fail", self._failed[number])
        if number in self._passed:
            return Result("pass")
        return Result("fail", "was not made")


def _said(report: pytest.TestReport) -> str:
    """The first line of an assertion, without what is another's in the next run."""
    crash: Any = getattr(report.longrepr, "reprcrash", None)
    text = cast(str, crash.message) if crash is not None else report.longreprtext
    line = text.removeprefix("AssertionError: ").partition("\n")[0]
    return _OF_THIS_RUN.sub("<id>", line)[:_SHOWN]


def read_recorded(path: Path) -> dict[int, Result]:
    """What a Recorder wrote."""
    return {int(number): Result(**result) for number, result in json.loads(path.read_text()).items()}
