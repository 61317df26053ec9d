"""Tries the built wheel, run by the Python it is installed in: `make build`. Exits with what is missing."""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path


def missing() -> list[str]:
    """What the installed package lacks, in words; empty if it is whole."""
    found: list[str] = []
    package = importlib.import_module("perdure")
    if not Path(str(package.__file__)).is_relative_to(sys.prefix):
        found.append(f"perdure is imported from {package.__file__}, not from the wheel")
    root = files("perdure")
    if not root.joinpath("py.typed").is_file():
        found.append("py.typed")
    revisions = root.joinpath("migrations", "versions")
    if not revisions.is_dir() or not any(entry.name.endswith(".py") for entry in revisions.iterdir()):
        found.append("the database's revisions in perdure/migrations/versions")
    if not root.joinpath("protocols", "threadprotocol", "threadprotocol.mjs").is_file():
        found.append("threadprotocol.mjs, which clients in JavaScript copy")
    shipped = [str(path) for path in distribution("perdure").files or []]
    if not any(path.endswith("LICENSE") for path in shipped):
        found.append("LICENSE")
    strays = {path.split("/", 1)[0] for path in shipped if not path.startswith(("perdure", ".."))}
    found.extend(f"{stray} stands beside the package" for stray in sorted(strays))
    return found


if __name__ == "__main__":
    problems = missing()
    sys.exit("the wheel is not whole: " + "; ".join(problems) if problems else 0)
