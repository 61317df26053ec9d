"""Reading the audited folder, and nothing outside of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from perdure.errors import InvalidInput

SAMPLE = Path(__file__).parent / "sample"
MOST_FILES = 1000
MOST_BYTES = 256 * 1024
_BINARY_BYTES = 8192  # as many as grep and git look at for a NUL
_SKIPPED = {".git", ".hg", ".svn", ".perdure", "node_modules", "__pycache__"}
_SKIP_MARKS = {"CACHEDIR.TAG", "pyvenv.cfg"}  # stand in caches and virtual environments


@dataclass(frozen=True, slots=True)
class File:
    """A file by its path in the folder, with `/` between its parts."""

    path: str
    size_bytes: int


@dataclass(slots=True)
class Listing:
    """The files of a folder.

    Attributes:
        files: at most `MOST_FILES`.
        left_out: folders that were not looked into: history, dependencies, caches, and those that cannot be read.
        complete: whether these are all files.
    """

    files: list[File] = field(default_factory=list[File])
    left_out: list[str] = field(default_factory=list[str])
    complete: bool = True


def list_folder(root: Path) -> Listing:
    """The regular files of a folder, then those of each folder in it, and so on; links are not followed.

    Raises:
        InvalidInput: it is no folder, or cannot be read.
    """
    listing = Listing()
    waiting = [""]
    while waiting and listing.complete:
        prefix = waiting.pop()
        try:
            with os.scandir(root / prefix) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            if not prefix:
                raise InvalidInput(f"{root} cannot be listed: {error.strerror}") from error
            entries = []
            listing.left_out.append(prefix.rstrip("/"))
        if prefix and _SKIP_MARKS & {entry.name for entry in entries}:
            listing.left_out.append(prefix.rstrip("/"))
        else:
            waiting += reversed(_take(entries, prefix, listing))
    return listing


def _take(entries: Sequence[os.DirEntry[str]], prefix: str, listing: Listing) -> list[str]:
    """Add a folder's files to the listing; returns the folders in it."""
    below: list[str] = []
    for entry in entries:
        path = prefix + entry.name
        if entry.is_dir(follow_symlinks=False):
            if entry.name in _SKIPPED:
                listing.left_out.append(path)
            else:
                below.append(path + "/")
        elif entry.is_file(follow_symlinks=False):
            if len(listing.files) == MOST_FILES:
                listing.complete = False
                break
            with suppress(OSError):  # it has been deleted meanwhile
                listing.files.append(File(path, entry.stat(follow_symlinks=False).st_size))
    return below


@dataclass(frozen=True, slots=True)
class Content:
    """A file's text, or why it was not read.

    Attributes:
        text: bytes that are not UTF-8 are replaced; empty if `skipped`.
        skipped: "binary" or "larger than 256 KB"; empty if it was read.
    """

    size_bytes: int
    text: str = ""
    skipped: str = ""


def read_inside(root: Path, path: str) -> Content:
    """The content of a file of the folder.

    Raises:
        InvalidInput: the path leads out of the folder, or to no readable regular file.
    """
    target = root / path
    try:
        real, inside = target.resolve(strict=True), root.resolve(strict=True)
        if not real.is_relative_to(inside):
            raise InvalidInput(f"{path!r} is outside of the audited folder")
        # Without waiting: opening a pipe would block until somebody writes to it.
        with open(real, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InvalidInput(f"{path!r} is no regular file")
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise InvalidInput(f"{path!r} cannot be read: {reason}") from error
    if b"\0" in data[:_BINARY_BYTES]:
        return Content(status.st_size, skipped="binary")
    if len(data) > MOST_BYTES:
        return Content(status.st_size, skipped=f"larger than {MOST_BYTES // 1024} KB")
    return Content(status.st_size, text=data.decode("utf-8", "replace"))
