"""Finding the user's app."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.errors import InvalidInput
from perdure.worker.registry import load_app

APP = """
from perdure import App, agent
from perdure.upp.providers.scripted import scripted
app = App(agents=[agent(name="a", model=scripted(["hi"]))])
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Makes a module of a text in the current folder and returns its name, which no other test uses."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))

    def make(text: str) -> str:
        name = f"users_module_{len(list(tmp_path.iterdir()))}"
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        return name

    return make


def test_an_app_is_imported_from_the_current_folder(module: Callable[[str], str]) -> None:
    """Without an installed package."""
    assert [agent.name for agent in load_app(f"{module(APP)}:app")] == ["a"]


@pytest.mark.parametrize("target", ["", "agents", "agents:", ":app", ":"])
def test_a_target_of_another_form_is_refused(target: str) -> None:
    """The message shows the form."""
    with pytest.raises(InvalidInput, match="write MODULE:ATTRIBUTE, for example agents:app"):
        load_app(target)


@pytest.mark.parametrize("name", ["no_such_module_here", "no_such_package.inner", "no such module"])
def test_a_module_that_is_not_there_is_named(module: Callable[[str], str], name: str) -> None:
    """With the folder that was looked in."""
    with pytest.raises(InvalidInput, match=f"no module '{name}' in {Path.cwd()}"):
        load_app(f"{name}:app")


def test_what_the_module_lacks_is_not_taken_for_the_module(module: Callable[[str], str]) -> None:
    """The user has forgotten to install something, not mistyped the target."""
    with pytest.raises(InvalidInput, match="needs 'no_such_library', which is not installed"):
        load_app(f"{module('import no_such_library')}:app")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise ValueError('bad key')", "cannot be imported: ValueError: bad key"),
        ("def f(:", "cannot be imported: SyntaxError"),
        ("from perdure import App, agent\napp = App(agents=[agent(model='gpt')])", "cannot be imported: InvalidInput"),
        ("from perdure import nothing", "cannot be imported: ImportError"),
    ],
    ids=["raises", "syntax", "ours", "name"],
)
def test_a_module_that_cannot_be_imported_says_why(module: Callable[[str], str], text: str, said: str) -> None:
    """In one line, not a traceback through ours."""
    with pytest.raises(InvalidInput, match=said):
        load_app(f"{module(text)}:app")


@pytest.mark.parametrize(
    ("attribute", "said"),
    [("nothing", "has no 'nothing'"), ("agents", "is a list; it must be an App"), ("none", "has no 'none'")],
)
def test_an_attribute_that_is_no_app_is_refused(module: Callable[[str], str], attribute: str, said: str) -> None:
    """A list of agents is the likely mistake."""
    name = module(f"{APP}\nagents = list(app)\nnone = None")
    with pytest.raises(InvalidInput, match=said):
        load_app(f"{name}:{attribute}")


def test_a_path_is_not_a_module(module: Callable[[str], str]) -> None:
    """`agents.py:app` is what people try first."""
    name = module(APP)
    with pytest.raises(InvalidInput):
        load_app(f"{name}.py:app")
