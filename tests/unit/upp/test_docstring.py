"""Reading docstrings."""

from __future__ import annotations

from collections.abc import Callable

from perdure.upp.docstring import FunctionDoc, read_docstring


def documented(text: str | None) -> Callable[[], None]:
    def function() -> None: ...

    function.__doc__ = text
    return function


def test_the_first_paragraph_is_one_line() -> None:
    """Line breaks of the source are not the model's concern."""
    assert read_docstring(documented("Open a\n    ticket.\n\n    More.")).summary == "Open a ticket."


def test_nothing_is_said_without_a_docstring() -> None:
    """No docstring, no description."""
    assert read_docstring(documented(None)) == FunctionDoc("", {})


def test_arguments_are_described() -> None:
    """Types in brackets and continued lines are understood."""
    text = """Do.

    Args:
        title (str): The title.
        body: First line,
            second line: with a colon.
        **rest: Anything.
        empty:

    Returns:
        title: not this one.
    """
    assert read_docstring(documented(text)).parameters == {
        "title": "The title.",
        "body": "First line, second line: with a colon.",
        "rest": "Anything.",
    }


def test_a_section_is_not_a_summary() -> None:
    """A docstring of arguments only has no description."""
    text = """
    Args:
        x: The x.
    """
    assert read_docstring(documented(text)) == FunctionDoc("", {"x": "The x."})
