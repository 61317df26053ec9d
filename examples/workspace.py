"""The tools that the examples give to their agents: small, real, and confined to one folder."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from perdure.upp import Tool, tool

SOURCES = {
    "server.py": "def serve(port):\n    pass  # TODO: answer requests\n",
    "routes.py": "ROUTES = []  # TODO: add the start page\n",
    "README.md": "A small web server.\n",
}


@dataclass(frozen=True)
class Workspace:
    """A folder with a small project, and the tools that work in it."""

    folder: Path
    Bash: Tool
    Read: Tool
    Write: Tool
    Glob: Tool
    Grep: Tool


@contextmanager
def workspace() -> Generator[Workspace]:
    """A temporary folder with a project of three files."""
    with TemporaryDirectory() as place:
        folder = Path(place).resolve()
        for name, text in SOURCES.items():
            (folder / name).write_text(text)
        yield make_tools(folder)


def make_tools(folder: Path) -> Workspace:
    """The tools of one folder."""

    def inside(path: str) -> Path:
        found = (folder / path).resolve()
        if not found.is_relative_to(folder):
            raise ValueError(f"{path} is outside of the workspace")
        return found

    @tool(name="Bash", timeout=10)
    def bash(command: str) -> str:
        """Run a shell command in the folder and return what it printed."""
        ended = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True)
        return (ended.stdout + ended.stderr).strip()

    @tool(name="Read", effect="none")
    def read(path: str) -> str:
        """Read a file."""
        return inside(path).read_text()

    @tool(name="Write", effect="idempotent")
    def write(path: str, content: str) -> str:
        """Write a file, in place of what it had before."""
        inside(path).write_text(content)
        return f"wrote {path}"

    @tool(name="Glob", effect="none")
    def find_files(pattern: str) -> list[str]:
        """List the files that fit a pattern, as `*.py`."""
        return sorted(str(path.relative_to(folder)) for path in folder.rglob(pattern) if path.is_file())

    @tool(name="Grep", effect="none")
    def find_text(text: str, pattern: str = "*") -> list[str]:
        """List the lines that hold a text, as `file:line: text`, in the files that fit a pattern."""
        return [
            f"{path.relative_to(folder)}:{number}: {line.strip()}"
            for path in sorted(folder.rglob(pattern))
            if path.is_file()
            for number, line in enumerate(path.read_text().splitlines(), start=1)
            if text in line
        ]

    return Workspace(folder, bash, read, write, find_files, find_text)
