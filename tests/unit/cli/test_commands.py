"""The list of commands agrees with the commands."""

from __future__ import annotations

import pytest

from perdure.cli.commands import COMMANDS, load


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_says_what_the_command_says(name: str) -> None:
    """A command's line in `perdure --help` is the first line of its own help."""
    assert (load(name).help or "").splitlines()[0] == COMMANDS[name]
