"""The runner of the breaks, and that the list of them fits today's code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutations import ROOT, Mutation, UnusableMutation, broken_source, read_mutations, verdict

LIST = read_mutations()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A project of one function and two tests, of which one looks at the function."""
    root = tmp_path / "project"
    (root / "tests").mkdir(parents=True)
    (root / "answer.py").write_text("def answer():\n    return 42\n")
    (root / "tests" / "test_it.py").write_text(
        "from answer import answer\n\ndef test_looks():\n    assert answer() == 42\n\ndef test_dreams():\n    pass\n"
    )
    (root / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["."]\n')
    return root


def break_for(test: str, before: str = "42") -> Mutation:
    return Mutation(test=f"tests/test_it.py::{test}", file="answer.py", before=before, after="41", why="wrong answers")


def test_every_listed_break_fits_the_code_and_names_a_test_file() -> None:
    for mutation in LIST:
        assert broken_source(mutation, ROOT)
        assert (ROOT / mutation.test.partition("::")[0]).is_file()


def test_a_break_that_the_test_sees_is_noticed_and_leaves_the_tree_whole(tree: Path) -> None:
    before = (tree / "answer.py").read_text()
    assert verdict(break_for("test_looks"), tree) == "noticed"
    assert (tree / "answer.py").read_text() == before


def test_a_break_that_the_test_does_not_see_survives(tree: Path) -> None:
    assert verdict(break_for("test_dreams"), tree) == "survived"


def test_a_test_that_does_not_exist_notices_nothing(tree: Path) -> None:
    assert verdict(break_for("test_nothing"), tree).startswith("not tried")


@pytest.mark.parametrize("before", ["43", "e"], ids=["absent", "repeated"])
def test_the_text_to_break_stands_exactly_once(tree: Path, before: str) -> None:
    with pytest.raises(UnusableMutation, match="times, not once"):
        broken_source(break_for("test_looks", before), tree)


def test_an_entry_that_lacks_a_word_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    path.write_text('[[mutation]]\ntest = "t"\n')
    with pytest.raises(UnusableMutation, match=r"list\.toml"):
        read_mutations(path)
