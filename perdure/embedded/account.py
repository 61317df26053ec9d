"""The unprivileged user that PostgreSQL runs as when we are root, which it refuses to be.

That user must be able to reach the data and the wheel's binaries, which may be below a folder that it cannot enter,
such as /root. It is then given the right to pass through (the search bit) each folder on the way, and nothing else, by
an access control list entry for this one user: nobody else gains anything, nothing can be listed or read. Where the
file system has no such lists, the search bit is set for others, and a warning logged. The data stays in `.perdure/`:
moving it elsewhere would break that a folder is all there is to copy, move or delete.
"""

from __future__ import annotations

import errno
import logging
import os
import pwd
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from perdure.errors import EmbeddedError

NAME = "pgserver"
_ACL = "system.posix_acl_access"
_USER_OBJECT, _USER, _GROUP_OBJECT, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
_NOBODY = 0xFFFFFFFF  # the id field of entries that name no one
_SEARCH = 1
_logger = logging.getLogger(__name__)


class PopenOptions(TypedDict, total=False):
    """Keyword arguments of `subprocess.Popen` that change the user."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True)
class Account:
    """A user that a child can run as."""

    uid: int
    gid: int


def running_as(account: Account | None) -> PopenOptions:
    """Return what makes `subprocess.Popen` run a child as this user, with none of our groups; nothing for None."""
    return {} if account is None else {"user": account.uid, "group": account.gid, "extra_groups": []}


def account_for(data: Path) -> Account | None:
    """Return the user that must run PostgreSQL on `data`; None if that is the user of this process.

    Root goes on with the owner of existing data, so a folder first used by a normal user stays that user's.
    """
    if os.geteuid() != 0:
        return None
    if data.exists() and data.stat().st_uid != 0:
        return Account(data.stat().st_uid, data.stat().st_gid)
    entry = _entry() or _create()
    return Account(entry.pw_uid, entry.pw_gid)


def let_pass(path: Path, account: Account) -> None:
    """Let the account reach `path`: add the search right to those folders above it that need it."""
    path = path.resolve()
    if _can_search(path.parent, account):
        return
    for folder in reversed(path.parents):
        if not _can_search(folder, account):
            _grant_search(folder, account)


def let_read(folder: Path) -> None:
    """Make a folder of public library files readable, as they are unless root installs with a strict umask."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | 0o444 | (0o111 if mode & 0o100 else 0))


def _entry() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(NAME)
    except KeyError:
        return None


def _create() -> pwd.struct_passwd:
    command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", NAME]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
        return pwd.getpwnam(NAME)
    except (OSError, KeyError, subprocess.CalledProcessError) as error:
        if (entry := _entry()) is not None:  # another process was faster
            return entry
        said = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else error
        raise EmbeddedError(
            f"PostgreSQL does not run as root, and the user {NAME!r} could not be made ({said}). "
            f"Make it (`{' '.join(command)}`), or run as a normal user."
        ) from error


def _can_search(folder: Path, account: Account) -> bool:
    """Ask the kernel in the user's place: modes, groups and lists together are more than one would compute."""
    test = subprocess.run(["test", "-x", str(folder)], cwd="/", check=False, **running_as(account))
    return test.returncode == 0


def _grant_search(folder: Path, account: Account) -> None:
    try:
        os.setxattr(folder, _ACL, _encode(_entries(folder) | {(_USER, account.uid): _SEARCH}))
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOSYS):
            raise
        folder.chmod(folder.stat().st_mode | 0o001)
        _logger.warning("embedded.folder_opened folder=%s right=search for=others", folder)
    else:
        _logger.info("embedded.folder_opened folder=%s right=search for=%s", folder, account.uid)


def _entries(folder: Path) -> dict[tuple[int, int], int]:
    """Return a folder's access list as {(tag, id): permissions}, with a mask that lets the search right through."""
    try:
        raw = os.getxattr(folder, _ACL)
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise
        mode = folder.stat().st_mode
        entries = {(_USER_OBJECT, _NOBODY): mode >> 6 & 7, (_GROUP_OBJECT, _NOBODY): mode >> 3 & 7}
        entries[_OTHER, _NOBODY] = mode & 7
    else:
        entries = {(tag, who): permissions for tag, permissions, who in struct.iter_unpack("<HHI", raw[4:])}
    entries[_MASK, _NOBODY] = entries.get((_MASK, _NOBODY), entries[_GROUP_OBJECT, _NOBODY]) | _SEARCH
    return entries


def _encode(entries: dict[tuple[int, int], int]) -> bytes:
    body = (struct.pack("<HHI", tag, permissions, who) for (tag, who), permissions in sorted(entries.items()))
    return struct.pack("<I", 2) + b"".join(body)
