"""`python -m tests.conformance.uaip_reference [--python PY]`: the checks against the reference and against ours, and the docs' table.

The reference is the package `uaip` from PyPI, in an environment of its own that is made for the run, or in the one of PY.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import httpx

from tests.conformance.uaip_results import Result, Results, read_recorded
from tests.conformance.uaip_table import OURS, PAGE, REFERENCE, render

ROOT = Path(__file__).parents[2]
STORE = Path(__file__).with_name("uaip_reference_store.py")
VERSION = "0.1.7"
NEEDED = [f"uaip=={VERSION}", "fastmcp"]
"""The package imports the second one, and does not ask for it."""
SHOWN = ("fastapi", "starlette", "uvicorn", "pydantic", "fastmcp")
OURS_SHOWN = ("temporalio", "fastapi", "hypercorn", "pydantic")
PATIENCE_S = 60


def make_environment(folder: Path) -> Path:
    """The python of a new environment that has the reference."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *NEEDED]
    subprocess.run(command, check=True)
    return python


def versions_in(python: Path) -> dict[str, str]:
    """What that environment has, by name; "python" and "uaip" among it."""
    code = (
        "import json, platform, sys\nfrom importlib import metadata\n"
        "found = {name: metadata.version(name) for name in sys.argv[1:]}\n"
        "print(json.dumps({**found, 'python': platform.python_version()}))"
    )
    done = subprocess.run([str(python), "-c", code, "uaip", *SHOWN], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


@contextmanager
def reference_server(python: Path, effects: Path) -> Generator[str]:
    """The address of the reference, which serves the store while the context lasts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "PERDURE_UAIP_EFFECTS": str(effects)}
    with (effects.parent / "reference.log").open("w") as log:
        process = subprocess.Popen([str(python), str(STORE), str(port)], env=environment, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(url, process)
        yield url
    finally:
        process.kill()
        process.wait()


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            httpx.get(url)
            return
        except httpx.TransportError:
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"the reference does not serve at {url}; its exit code: {process.poll()}") from None
            time.sleep(0.1)


def run_checks(folder: Path, **environment: str) -> dict[int, Result]:
    """Make the checks in a process of their own, and read what came of them."""
    recorded = folder / "recorded.json"
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider"]
    files = sorted(str(path.relative_to(ROOT)) for path in Path(__file__).parent.glob("test_uaip_*.py"))
    done = subprocess.run(
        [*command, "-k", "test_check_", *files],
        cwd=ROOT,
        env={**os.environ, **environment, "PERDURE_UAIP_RESULTS": str(recorded)},
        check=False,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"pytest ended with {done.returncode}")
    return read_recorded(recorded)


def check_reference(given: Path | None, folder: Path) -> None:
    """Write the reference's results."""
    python = given or make_environment(folder / "environment")
    versions = versions_in(python)
    effects = folder / "effects"
    effects.touch()
    with reference_server(python, effects) as url:
        checks = run_checks(
            folder,
            PERDURE_UAIP_URL=url,
            PERDURE_UAIP_FORM=f"uaip-{VERSION}",
            PERDURE_UAIP_EFFECTS=str(effects),
        )
    _write(REFERENCE, f"uaip {versions.pop('uaip')}", versions, checks)


def check_ours(folder: Path) -> None:
    """Write our own results."""
    versions = {name: metadata.version(name) for name in OURS_SHOWN}
    versions["python"] = ".".join(str(part) for part in sys.version_info[:3])
    _write(OURS, f"perdure {metadata.version('perdure')}", versions, run_checks(folder))


def _write(path: Path, server: str, versions: Mapping[str, str], checks: Mapping[int, Result]) -> None:
    Results(server, datetime.now(UTC).date().isoformat(), versions, checks).write(path)


def main() -> None:
    """Both runs, then the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.uaip_reference")
    parser.add_argument("--python", type=Path, help=f"one that has {' and '.join(NEEDED)}; by default one is made")
    parser.add_argument("--only", choices=["reference", "perdure"], help="leave the other's results as they are")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="perdure-uaip-") as name:
        if given.only != "perdure":
            check_reference(given.python, Path(name))
        if given.only != "reference":
            check_ours(Path(name))
    PAGE.write_text(render(Results.read(OURS), Results.read(REFERENCE)), encoding="utf-8")


if __name__ == "__main__":
    main()
