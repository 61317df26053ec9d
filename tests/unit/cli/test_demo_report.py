"""What counts as a finding, and how the demo's report shows it."""

from __future__ import annotations

import pytest

from perdure.cli.demo_project.report import Audit, find_marks, one_line, write_markdown


@pytest.mark.parametrize(
    ("line", "kind", "text"),
    [
        ("# TODO: tidy up", "TODO", "TODO: tidy up"),
        ("x = 1  # FIXME(anna) later ", "FIXME", "FIXME(anna) later"),
        ("/* FIXME: see TODO */", "FIXME", "FIXME: see TODO"),
        ("<!-- TODO -->", "TODO", "TODO"),
        ("// TODO: größer,\t図書館 📚\r", "TODO", "TODO: größer, 図書館 📚"),
    ],
)
def test_a_line_with_the_word_is_found(line: str, kind: str, text: str) -> None:
    [found] = find_marks("a.py", f"first\n{line}\n")
    assert (found.path, found.line, found.kind, found.text) == ("a.py", 2, kind, text)


@pytest.mark.parametrize("line", ["todo: lower case", "TODOS", "my_TODO", "ÄTODO", ""])
def test_a_line_without_the_whole_word_is_not(line: str) -> None:
    assert find_marks("a.py", line) == []


def test_only_a_line_feed_ends_a_line_as_for_grep() -> None:
    assert [found.line for found in find_marks("a", "a\u2028b\x0bc\rd\nTODO\n")] == [2]


def test_the_report_names_each_finding_under_its_file() -> None:
    audit = Audit("shelf", "Audit it", listed=3, read=["a.py", "b.py", "c.py"])
    audit.findings = [*find_marks("a.py", "TODO one\nFIXME two"), *find_marks("c.py", "\n\nTODO three")]
    assert write_markdown(audit) == (
        "# TODO audit of `shelf`\n\nAsked for: `Audit it`\n\n"
        "3 files read. 3 comments wait in 2 of them: 2 TODO, 1 FIXME.\n\n"
        "## `a.py`\n\n- line 1: `TODO one`\n- line 2: `FIXME two`\n\n"
        "## `c.py`\n\n- line 3: `TODO three`\n"
    )


def test_an_empty_folders_report_says_so() -> None:
    assert "The folder holds no files" in write_markdown(Audit("empty"))


def test_a_folder_without_comments_says_so() -> None:
    assert "1 files read. None of them holds a TODO" in write_markdown(Audit("tidy", listed=1, read=["a"]))


def test_what_was_not_read_is_named_with_its_reason() -> None:
    report = write_markdown(Audit("x", listed=2, read=["a"], unread={"b.png": "binary"}, left_out=[".git"]))
    assert "1 of 2 files read." in report
    assert "- `b.png`: binary" in report
    assert "Not looked into: `.git`." in report


@pytest.mark.parametrize(("complete", "of"), [(True, "of 9 were"), (False, "of more than 9 were")])
def test_a_cap_is_said(complete: bool, of: str) -> None:
    report = write_markdown(Audit("x", listed=9, complete=complete, read=["a", "b"]))
    assert f"2 files read; only the first 2 {of} looked at" in report


def test_a_name_with_backticks_stays_one_code_span() -> None:
    assert "## `` `a`.py ``" in write_markdown(
        Audit("x", listed=1, read=["`a`.py"], findings=find_marks("`a`.py", "TODO"))
    )


def test_long_text_is_cut() -> None:
    report = write_markdown(Audit("x", listed=1, read=["a"], findings=find_marks("a", "TODO " + "y" * 1000)))
    assert f"TODO {'y' * 154}…`" in report


def test_no_escape_sequence_or_surrogate_reaches_the_screen() -> None:
    assert one_line("a\x1b[31m\udcff\nb\u202e") == "a�[31m� b�"
