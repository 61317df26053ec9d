"""What needs no server: help, version, wrong command lines, input that is none, and the end of the process."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

from tests.acceptance.terminal import Terminal


def test_the_version_is_the_packages(elsewhere: Terminal) -> None:
    assert elsewhere("--version").out == f"perdure {version('perdure')}\n"


def test_help_names_every_command_and_exit_code(elsewhere: Terminal) -> None:
    """`perdure --help` tells the commands and what their exit codes mean."""
    shown = elsewhere("--help").out
    commands = [
        "dev",
        "run",
        "bench",
        "sessions",
        "runs",
        "waits",
        "worker",
        "mcp",
        "migrate",
        "deploy",
        "replay",
        "doctor",
        "demo",
    ]
    for word in commands:
        assert f"│ {word} " in shown
    for line in ("0 done", "1 the run failed", "3 a server", "4 the run was cancelled", "130 interrupted"):
        assert f" {line}" in shown


def test_help_waits_for_no_client(elsewhere: Terminal) -> None:
    """The help is there before Temporal's client, the database's or a worker could be imported."""
    heavy = "{'temporalio', 'sqlalchemy', 'asyncpg'}"
    program = (
        f"import sys; from perdure.cli import main; main._run(['--help']); sys.exit({heavy} & set(sys.modules) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=elsewhere.folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "perdure [OPTIONS] COMMAND" in done.stdout


def test_help_tells_how_a_client_starts_the_mcp_server(elsewhere: Terminal) -> None:
    """`perdure mcp --help` names what is served, and how a client goes on."""
    shown = elsewhere("mcp", "--help").out
    for word in ("WORKFLOW", "--session", "--tenant", "stdin and stdout"):
        assert word in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sesions",), ("No such command 'sesions'", "'sessions'")),
        (("run",), ("Missing argument 'AGENT'",)),
        (("run", "calc"), ("Missing argument 'INPUT'",)),
        (("run", "calc", "  "), ("INPUT is empty",)),
        (("run", "calc", "-"), ("INPUT is empty",)),
        (("run", "calc", "x", "--key", ""), ("--key is empty",)),
        (("run", "calc", "x", "--max-steps", "0"), ("--max-steps",)),
        (("run", "calc", "x", "--max-cost", "much"), ("--max-cost is 'much'",)),
        (("run", "calc", "x", "--max-cost", "-1"), ("max_cost is '-1'", "above 0")),
        (("run", "calc", "x", "--nope"), ("No such option", "--nope")),
        (("run", "calc", "\udcff"), ("INPUT has bytes that are not UTF-8",)),
        (("runs", "show", "x" * 300), ("run id", "is not a UUIDv4")),
        (("sessions", "events", "x", "--after", "-1"), ("--after",)),
        (("mcp",), ("Missing argument 'WORKFLOW'",)),
        (("mcp", " "), ("WORKFLOW is empty",)),
        (("mcp", "store", "--session", ""), ("--session is empty",)),
        (("worker", "agents"), ("'agents'", "MODULE:ATTRIBUTE")),
        (("worker", "nothing:app"), ("'nothing'",)),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(
    elsewhere: Terminal, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    """What cannot be used is named in one line, without a traceback and without any server."""
    elsewhere(*arguments, code=2).check_error(*words)


def test_an_error_is_json_for_programs(elsewhere: Terminal) -> None:
    """With --json an error is one document on stdout, and still a line on stderr."""
    wrong = elsewhere("run", "calc", "  ", "--json", code=2)
    assert wrong.json == {"error": {"type": "InvalidInput", "message": wrong.err.strip().removeprefix("error: ")}}
    assert elsewhere("runs", "show", "--json", code=2).json["error"]["type"] == "UsageError"


def test_a_traceback_can_be_had(elsewhere: Terminal) -> None:
    """PERDURE_DEBUG=1 shows where an error came from, before its line."""
    (elsewhere.folder / "faulty.py").write_text("raise KeyError('so')\n", encoding="utf-8")
    elsewhere("worker", "faulty:app", code=2).check_error("faulty", "KeyError: 'so'")
    long = elsewhere.with_environment(PERDURE_DEBUG="1")("worker", "faulty:app", code=2)
    assert "Traceback" in long.err
    assert "faulty.py" in long.err
    assert long.err.splitlines()[-1].startswith("error: ")


def test_a_module_that_exits_is_obeyed(elsewhere: Terminal) -> None:
    """An app's module that ends the process says so itself, and its exit code is kept."""
    (elsewhere.folder / "leaver.py").write_text("raise SystemExit('no key is set')\n", encoding="utf-8")
    assert elsewhere("worker", "leaver:app", code=1).err == "no key is set\n"
