"""What the README shows is what happens."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.acceptance.terminal import Terminal

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
PROGRAM = """
import asyncio
from agents import helper
from perdure import connect

async def main():
    {body}
    print(turn.response.text)

asyncio.run(main())
"""


def test_the_first_agent_runs_as_shown(elsewhere: Terminal) -> None:
    """The agent of at most 15 lines, served by `perdure dev`, answers a command and a program."""
    lines = [line for line in BLOCKS[0].splitlines() if line.strip() and not line.startswith("#")]
    assert len(lines) <= 15
    (elsewhere.folder / "agents.py").write_text(BLOCKS[0], encoding="utf-8")
    server = elsewhere.start("dev", "agents:app")
    server.until(lambda: "worker ready" in server.err)
    try:
        assert elsewhere("run", "helper", "Open a ticket for the login bug").out == "I opened T-1.\n"
        body = BLOCKS[1].strip().replace("\n", "\n    ")
        program = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(body=body)],
            cwd=elsewhere.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert program.stdout == "I opened T-1.\n", program.stderr
    finally:
        server.send(signal.SIGTERM)
        assert server.wait() == 0


def test_the_readme_names_commands_that_exist(elsewhere: Terminal) -> None:
    """Every command of the README's table is in the help."""
    overview = elsewhere("--help").out
    for name in ("dev", "run", "sessions", "runs", "waits", "worker", "migrate", "doctor", "demo"):
        assert f"perdure {name}" in README
        assert re.search(rf"\b{name}\b", overview)
