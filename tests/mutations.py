"""Shows that the tests notice breaks: applies each one-line break of `mutations.toml` and runs its test.

A break lives in a copy of the tree, never in the tree itself. `make soak` runs this as `python -m tests.mutations JOBS`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_suffix(".toml")
DEADLINE_S = 600
HANGS_AFTER_S = 120
"""A test takes a third of that at most; one that waits for what a break keeps from it need not wait for long."""
_NOT_COPIED = shutil.ignore_patterns(".git", ".venv", ".*_cache", ".hypothesis", ".perdure", "dist", "results")
_PACKAGES = Path("dist", "node")
"""Of npm, installed once for all copies."""


class UnusableMutation(Exception):
    """An entry of the list that cannot be tried; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One break and the test that must notice it.

    Attributes:
        test: node id of the test that must go red.
        file: the broken file, relative to the root.
        before: text that stands in the file exactly once.
        after: what it is replaced by.
        why: what would go wrong for a user if nobody noticed.
    """

    test: str
    file: str
    before: str
    after: str
    why: str


def read_mutations(path: Path = LIST) -> list[Mutation]:
    """The listed breaks, in the order of the file.

    Raises:
        UnusableMutation: an entry lacks a word or has one too many.
    """
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("mutation", [])
    try:
        return [Mutation(**entry) for entry in entries]
    except TypeError as error:
        raise UnusableMutation(f"{path.name}: {error}") from None


def broken_source(mutation: Mutation, root: Path) -> str:
    """The text of the broken file.

    Raises:
        UnusableMutation: the file is missing, or `before` does not stand in it exactly once.
    """
    path = root / mutation.file
    if not path.is_file():
        raise UnusableMutation(f"{mutation.file} does not exist (break for {mutation.test})")
    source = path.read_text(encoding="utf-8")
    times = source.count(mutation.before)
    if times != 1:
        raise UnusableMutation(f"{mutation.file} has {mutation.before!r} {times} times, not once")
    return source.replace(mutation.before, mutation.after)


def copied_tree(folder: Path, root: Path = ROOT) -> Path:
    """A copy of the tree below `folder`, compiled if it was, without what git, tools and earlier runs keep there."""
    tree = Path(shutil.copytree(root, folder / "tree", symlinks=True, ignore=_NOT_COPIED))
    (root / _PACKAGES).mkdir(parents=True, exist_ok=True)
    (tree / _PACKAGES).parent.mkdir()
    (tree / _PACKAGES).symlink_to((root / _PACKAGES).resolve())
    return tree


def break_tree(tree: Path, mutation: Mutation) -> None:
    """Break a copied tree, and what was compiled of it.

    Raises:
        UnusableMutation: see `broken_source`.
    """
    path = tree / mutation.file
    path.write_text(broken_source(mutation, tree), encoding="utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()


def run_tests(tree: Path, arguments: Sequence[str], *, deadline_s: float | None = DEADLINE_S) -> tuple[int, str]:
    """Pytest's exit code and output, by its arguments, for tests of a copied tree; a hang counts as a failure."""
    environment = os.environ | {"PYTHONPATH": str(tree)}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments]
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=deadline_s, check=False
        )
    except subprocess.TimeoutExpired:
        return int(pytest.ExitCode.TESTS_FAILED), f"no end within {deadline_s} s"
    return done.returncode, done.stdout + done.stderr


def verdict(mutation: Mutation, root: Path = ROOT) -> str:
    """What its test made of the break: `noticed`, `survived`, or why it could not be tried."""
    with tempfile.TemporaryDirectory(prefix="perdure-mutation-") as folder:
        tree = copied_tree(Path(folder), root)
        break_tree(tree, mutation)
        code, output = run_tests(tree, ["--timeout", str(HANGS_AFTER_S), mutation.test])
    if code == pytest.ExitCode.OK:
        return "survived"
    if code == pytest.ExitCode.TESTS_FAILED:
        return "noticed"
    return f"not tried, pytest ended with {code}: {output.strip().splitlines()[-1:]}"


def main(jobs: int) -> int:
    """Tries every listed break, prints a table and returns 1 if one was not noticed.

    Args:
        jobs: how many are tried at once, each with servers of its own.
    """
    mutations = read_mutations()
    tests = sorted({mutation.test for mutation in mutations})
    with tempfile.TemporaryDirectory(prefix="perdure-mutation-") as folder:
        whole = copied_tree(Path(folder))
        several = ("--numprocesses", str(jobs), "--dist", "loadfile")
        code, output = run_tests(whole, [*several, *tests], deadline_s=None)
        if code != pytest.ExitCode.OK:
            print(f"the tests fail without any break:\n{output}")
            return 1
        with ThreadPoolExecutor(jobs) as pool:
            results = list(pool.map(partial(_told, whole), mutations))
    noticed = results.count("noticed")
    print(f"{noticed} of {len(results)} breaks noticed")
    return 0 if noticed == len(results) else 1


def _told(root: Path, mutation: Mutation) -> str:
    result = verdict(mutation, root)
    print(f"{result:<10} {mutation.file}: {mutation.why}\n{'':<10} {mutation.test}", flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 1))
