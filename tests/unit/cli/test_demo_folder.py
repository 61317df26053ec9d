"""What the demo's auditor may see of a folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perdure.cli.demo_project import folder
from perdure.cli.demo_project.folder import MOST_BYTES, list_folder, read_inside
from perdure.errors import InvalidInput


def paths(root: Path) -> list[str]:
    return [file.path for file in list_folder(root).files]


def write(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("text\n", encoding="utf-8")


def test_a_folders_own_files_come_before_those_below_it(tmp_path: Path) -> None:
    write(tmp_path, "b/inner.py", "b/a/deep.py", "z.py", "größe 📚.py")
    assert paths(tmp_path) == ["größe 📚.py", "z.py", "b/inner.py", "b/a/deep.py"]


def test_history_dependencies_and_caches_are_left_out_and_named(tmp_path: Path) -> None:
    write(tmp_path, ".git/config", "node_modules/x.js", "cache/CACHEDIR.TAG", "env/pyvenv.cfg", "kept.py")
    listing = list_folder(tmp_path)
    assert [file.path for file in listing.files] == ["kept.py"]
    assert sorted(listing.left_out) == [".git", "cache", "env", "node_modules"]


def test_a_link_and_a_pipe_are_no_files(tmp_path: Path) -> None:
    write(tmp_path, "real.py")
    (tmp_path / "link.py").symlink_to("/etc/passwd")
    (tmp_path / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert paths(tmp_path) == ["real.py"]


def test_a_listing_stops_at_its_limit_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "MOST_FILES", 2)
    write(tmp_path, "a", "b")
    assert list_folder(tmp_path).complete
    write(tmp_path, "c/d", "c/e")
    listing = list_folder(tmp_path)
    assert (len(listing.files), listing.complete) == (2, False)


def test_a_missing_folder_cannot_be_listed(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        list_folder(tmp_path / "missing")


def test_a_file_is_read_as_text_whatever_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "latin.c").write_bytes("größe\n".encode("latin-1"))
    assert read_inside(tmp_path, "latin.c").text == "gr��e\n"


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "inner/../../secret", "link"])
def test_no_path_leads_out_of_the_folder(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    write(root, "inner/file")
    write(tmp_path, "secret")
    (root / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(InvalidInput, match="outside of the audited folder"):
        read_inside(root, path)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("missing", "No such file"),
        (".", "Is a directory"),
        ("nul\0", "null"),
        ("a" * 300, "too long"),
        ("pipe", "regular"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(tmp_path: Path, path: str, reason: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidInput, match=reason):
        read_inside(tmp_path, path)


def test_binary_and_huge_files_are_skipped_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "image.png").write_bytes(b"\x89PNG\0")
    (tmp_path / "full").write_bytes(b"x" * MOST_BYTES)
    (tmp_path / "huge").write_bytes(b"x" * (MOST_BYTES + 1))
    assert read_inside(tmp_path, "image.png").skipped == "binary"
    assert not read_inside(tmp_path, "full").skipped
    assert read_inside(tmp_path, "huge").skipped == "larger than 256 KB"
