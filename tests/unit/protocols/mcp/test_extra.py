"""Without the extra `mcp` everything else works, and what needs it says what to install."""

from __future__ import annotations

import subprocess
import sys

from perdure.protocols.mcp import extra

WITHOUT = "import sys; sys.modules['mcp'] = sys.modules['mcp_types'] = None; "
COMMAND = f"{WITHOUT}from perdure.cli import main; sys.exit(main._run(['mcp', 'store']))"
SERVER = f"{WITHOUT}import perdure.api.app, perdure.cli.serve; print(*sys.modules)"
ROUTE = f"{WITHOUT}import asyncio; from perdure.api.doors.mcp import mcp; asyncio.run(mcp(None, 'store', None))"


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)


def test_the_command_says_what_to_install() -> None:
    ended = run(COMMAND)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"error: {extra.MISSING}\n"
    assert "pip install 'perdure[mcp]'" in ended.stderr


def test_the_endpoint_says_what_to_install() -> None:
    ended = run(ROUTE)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == f"perdure.api.problems.Refused: {extra.MISSING}"


def test_the_server_starts() -> None:
    ended = run(SERVER)
    assert ended.returncode == 0, ended.stderr
    assert "perdure.api.doors.mcp" in ended.stdout.split()


def test_the_extra_is_there() -> None:
    assert extra.is_there()
