"""The examples of the specification's appendices do what they say, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SUPPORT = {"workspace", "carrier"}
SHOWS = {
    "complete_agent": """
        --- Step 1 ---
        Reasoning: I do not know this code yet, so the explorer shall look for the comments first.
        Action: explorer
        --- Step 2 ---
        Action: Write
        --- Step 3 ---
        Action: Bash
        --- Step 4 ---
        Completed in 8 cycles
        I wrote the issues to ISSUES.md.
        Restored 4 checkpoints
        --- Step 1 ---
        Action: Read
        --- Step 2 ---
        Action: Write
        --- Step 3 ---
        Completed in 6 cycles
        The issues are in order of importance.
        - server.py:2: pass  # TODO: answer requests
        - routes.py:1: ROUTES = []  # TODO: add the start page
    """,
    "query_pattern": """
        Catch what you can handle, and let the rest propagate.
        An await raises what its task raised, so the same holds there.
        try: await work() / except KnownError: recover() / finally: close()
        6 messages in one thread: True
    """,
    "streaming": """
        === Step 1 ===
        [Thinking] The file server.py is where it belongs, so I read it first.
        [Action] Read({"path": "server.py"})
        [Result] 1 results
        === Step 2 ===
        [Action] Write(
        === Step 3 ===
        Final response: server.py now serves the folder on port 8000.
        Total tokens:
    """,
    "before_raw_upp": """
        user: List the files and say DONE.
        assistant:
        tool_result: routes.py
        server.py
        assistant: There are two modules, routes.py and server.py. DONE
    """,
    "after_uap_agent": """
        tool_result: routes.py
        server.py
        assistant: There are two modules, routes.py and server.py. DONE
        tool_result: routes.py
        server.py
        2 checkpoints
    """,
    "stage_store": """
        store: Buy stationery.
        browse: Look at what there is.
        tasks: search_products
        needs: nothing
        leads to: cart
        checkout: Pay what is in the cart.
        needs: cart.items, user.email
        leads to: cart, done
        leads to: nothing, it is the end
        goods_return: Send goods back.
        tasks: find_order
        label: Get a label for the parcel.
        tasks: order_label
        needs: order
        leads to: order, done
    """,
    "approval_stages": """
        review: A person decides. The call waits for that, for a week at most.
        tasks: decide
        needs: request
        leads to: draft, purchase
        needs: approved
    """,
}
"""What each prints, in this order; more may stand between and after."""


def run(name: str) -> subprocess.CompletedProcess[str]:
    """An example that was run to its end, in a folder that is not the project's."""
    return subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=EXAMPLES.anchor,
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )


@pytest.mark.parametrize("name", SHOWS)
def test_an_example_shows_what_it_says(name: str) -> None:
    printed = run(name).stdout
    for line in filter(None, map(str.strip, SHOWS[name].splitlines())):
        before, found, printed = printed.partition(line)
        assert found, f"{line!r} does not come after the lines before it, in {before!r}"


@pytest.mark.parametrize("name", ["complete_agent", "after_uap_agent"])
def test_logging_tells_on_standard_error(name: str) -> None:
    """By the wording of section 10.3."""
    said = run(name).stderr
    assert "[INFO] Agent " in said
    assert "starting execution" in said
    assert " completed in " in said


def test_every_example_is_run() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} - SUPPORT == set(SHOWS)
