"""Result files: one line of JSON for each run of the benchmark, with all that was measured and where."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cattrs import Converter

from benchmarks.measure import Measurement
from benchmarks.processes import cores

ROOT = Path(__file__).parents[1]
FOLDER = Path(__file__).parent / "results"
SMOKE = "smoke"
"""The file of runs that only show that the benchmark works."""

_converter = Converter(forbid_extra_keys=True)


@dataclass(frozen=True)
class Machine:
    """Where it was measured.

    Attributes:
        cpu: the processor's model.
        cores: that could be used.
        memory_bytes: in all.
        kernel: name and release.
        python: version.
    """

    cpu: str
    cores: int
    memory_bytes: int
    kernel: str
    python: str


@dataclass(frozen=True)
class Result:
    """One run of the benchmark.

    Attributes:
        kind: "pairs" for W1 to W5, else the work: "w6" to "w10"; also the name of the file.
        date: when it began, ISO 8601 in UTC.
        revision: of git, with "+" behind it if files were changed since.
        machine: where.
        versions: by contestant or server the versions by package.
        settings: of the run, such as rounds and at_once.
        measurements: raw, in the order in which they were made.
        rows: of W6 to W10: one object per figure, as the work says.
        smoke: a run that only showed that everything works; its figures mean nothing.
    """

    kind: str
    date: str
    revision: str
    machine: Machine
    versions: Mapping[str, Mapping[str, str]]
    settings: Mapping[str, Any]
    measurements: tuple[Measurement, ...] = ()
    rows: tuple[Mapping[str, Any], ...] = ()
    smoke: bool = False


@dataclass(frozen=True)
class Stamp:
    """When and on what a run of the benchmark began."""

    date: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    revision: str = field(default_factory=lambda: revision())
    machine: Machine = field(default_factory=lambda: machine())

    def result(
        self,
        kind: str,
        *,
        versions: Mapping[str, Mapping[str, str]],
        settings: Mapping[str, Any],
        measurements: Sequence[Measurement] = (),
        rows: Sequence[Mapping[str, Any]] = (),
        smoke: bool = False,
    ) -> Result:
        """The result of that run."""
        return Result(
            kind, self.date, self.revision, self.machine, versions, settings, tuple(measurements), tuple(rows), smoke=smoke
        )  # fmt: skip


def append(result: Result, folder: Path = FOLDER) -> Path:
    """Append a line to the file of the result's kind, or to that of smoke runs, and return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{SMOKE if result.smoke else result.kind}.jsonl"
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(asdict(result)) + "\n")
    return file


def read(folder: Path = FOLDER, kind: str | None = None) -> list[Result]:
    """All results of a kind, or of all, in the order of their dates, without those of smoke runs.

    Raises:
        ValueError: a line is no result; it names file and line.
    """
    files = sorted(folder.glob("*.jsonl" if kind is None else f"{kind}.jsonl"))
    found = [result for file in files if file.stem != SMOKE for result in read_file(file)]
    return sorted(found, key=lambda result: result.date)


def read_file(file: Path) -> list[Result]:
    """The results of one file, in its order. Raises as `read`."""
    results: list[Result] = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            results.append(_converter.structure(json.loads(line), Result))
        except Exception as error:
            raise ValueError(f"{file}:{number} is no result of this benchmark: {error}") from error
    return results


def revision() -> str:
    """The commit that is measured, with "+" behind it if tracked files of the package or the benchmark were changed."""
    commit = _git("rev-parse", "--short=12", "HEAD")
    return commit + ("+" if _git("status", "--porcelain", "--untracked-files=no", "perdure", "benchmarks") else "")


def machine() -> Machine:
    """This machine."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    kernel = f"{platform.system()} {platform.release().partition('-')[0]}"
    return Machine(model, cores(), memory, kernel, platform.python_version())


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()
