"""References to secrets. A value is read where it is used, each time, and is in no specification, history or row."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from perdure.errors import InvalidInput
from perdure.upp.redaction import known_secrets

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""What an App may call a secret."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_declared: dict[str, Secret] = {}


class Secret:
    """A secret by reference; made by `secret`. It is a KeyStrategy, so it is what a provider takes for its `api_key`.

    Its value is in nothing that is shown, compared or pickled: those have the reference.
    """

    __slots__ = ("_kind", "_name", "_place")

    def __init__(self, reference: str) -> None:
        """See `secret`."""
        self._kind, _, self._place = reference.partition(":")
        known = _VARIABLE.fullmatch(self._place) if self._kind == "env" else Path(self._place).is_absolute()
        if self._kind not in ("env", "file") or not known:  # what was given is not shown: it may be the secret itself
            raise InvalidInput(
                "a secret is given as env:VARIABLE or file:/ABSOLUTE/PATH, and what was given is neither"
            )
        self._name = self._place if self._kind == "env" else Path(self._place).name

    @property
    def reference(self) -> str:
        """Where the value is."""
        return f"{self._kind}:{self._place}"

    def get_key(self) -> str:
        """The value as it is now. From then on it is redacted in all that this process stores, streams and logs.

        Raises:
            InvalidInput: there is none, or this is workflow code, where values would be part of the history.
        """
        return self.value(self._name)

    def value(self, name: str) -> str:
        """The value as it is now; `name` stands in its place wherever it is redacted. Raises as `get_key`."""
        if _is_workflow_code():
            raise InvalidInput(
                f"the secret {self.reference} is asked for in workflow code; use it in a tool, hook or middleware"
            )
        found = self._read()
        known_secrets.learn(name, found, declared=True)
        return found

    def register(self, name: str) -> None:
        """See that there is a value, and redact it from now on.

        Args:
            name: of the secret; stands in the value's place.

        Raises:
            InvalidInput: there is no value, or it is too plain to be looked for.
        """
        known_secrets.register(name, self._read())

    def _read(self) -> str:
        if self._kind == "env":
            found = os.environ.get(self._place, "")
            remedy = f"set the environment variable {self._place}"
        else:
            found, remedy = self._read_file(), "write it into that file, which this process must be able to read"
        if not found:
            raise InvalidInput(f"the secret {self.reference} is not there; {remedy}, and start again")
        return found

    def _read_file(self) -> str:
        try:
            return Path(self._place).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.reference == self.reference

    def __hash__(self) -> int:
        return hash(self.reference)

    def __repr__(self) -> str:
        return f"secret({self.reference!r})"

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return Secret, (self.reference,)


def secret(reference: str) -> Secret:
    """A reference to a secret, for a provider's `api_key` and headers, and for `App(secrets={...})`.

    Args:
        reference: `env:VARIABLE`, or `file:/ABSOLUTE/PATH`, whose text is taken without blanks around it.

    Raises:
        InvalidInput: it is neither. Whether there is a value is seen when it is used, and by a worker when it starts.
    """
    return Secret(reference)


def check_secrets(secrets: Mapping[str, Secret]) -> dict[str, Secret]:
    """A copy of the secrets of an App, by name.

    Raises:
        InvalidInput: a name cannot be used, or what it names is no reference.
    """
    for name, item in cast("Mapping[object, object]", secrets).items():
        if not isinstance(name, str) or NAME.fullmatch(name) is None:
            raise InvalidInput("a secret's name must be 1 to 64 letters, digits, '.', '_' or '-'")
        if not isinstance(item, Secret):
            raise InvalidInput(f'the secret {name!r} must be a reference, such as secret("env:VARIABLE")')
    return dict(secrets)


def declare(secrets: Mapping[str, Secret]) -> None:
    """Let runs in this process, without a worker, ask for secrets by these names."""
    _declared.update(secrets)


def declared() -> Mapping[str, Secret]:
    """What the Apps of this process have named."""
    return _declared


def value_of(secrets: Mapping[str, Secret], name: str) -> str:
    """The value of a named secret, as it is now.

    Raises:
        InvalidInput: there is no secret of that name, or no value.
    """
    found = secrets.get(name)
    if found is None:
        raise InvalidInput(
            f"no secret is named {name!r}; there are {', '.join(sorted(secrets)) or 'none'}: App(secrets={{...}}) names them"
        )
    return found.value(name)


def _is_workflow_code() -> bool:
    """Asked without importing Temporal, of which nothing down here knows; where it is not loaded there are no workflows."""
    workflow = sys.modules.get("temporalio.workflow")
    return workflow is not None and bool(workflow.in_workflow())
