"""Where the servers are looked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import ServerUnavailable
from perdure.runtime.addresses import ServerAddresses, find_addresses

TEMPORAL, DATABASE = "PERDURE_TEMPORAL_ADDRESS", "PERDURE_DATABASE_URL"
RECORDED = {"temporal": {"address": "127.0.0.1:1"}, "postgres": {"url": "postgresql://recorded"}}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server of this machine's."""
    monkeypatch.delenv(TEMPORAL, raising=False)
    monkeypatch.delenv(DATABASE, raising=False)


def record(folder: Path, content: Any = RECORDED) -> None:
    """What `perdure dev` leaves in a folder."""
    (folder / ".perdure").mkdir(parents=True)
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / ".perdure" / "servers.json").write_text(text, encoding="utf-8")


def test_what_is_said_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the environment, before the folder."""
    record(tmp_path)
    monkeypatch.setenv(TEMPORAL, "env:1")
    monkeypatch.setenv(DATABASE, "postgresql://env")
    found = find_addresses(temporal_address="said:1", database_url="postgresql://said", folder=tmp_path)
    assert found == ServerAddresses("said:1", "postgresql://said")


def test_the_environment_goes_before_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And each address is looked for by itself."""
    record(tmp_path)
    monkeypatch.setenv(TEMPORAL, "env:1")
    assert find_addresses(folder=tmp_path) == ServerAddresses("env:1", "postgresql://recorded")


def test_the_nearest_folder_is_found_from_below(tmp_path: Path) -> None:
    """As git finds its own."""
    record(tmp_path)
    record(tmp_path / "inner", {**RECORDED, "temporal": {"address": "127.0.0.1:2"}})
    below = tmp_path / "inner" / "a" / "b"
    below.mkdir(parents=True)
    assert find_addresses(folder=below).temporal == "127.0.0.1:2"
    assert find_addresses(folder=tmp_path).temporal == "127.0.0.1:1"


def test_the_current_folder_is_where_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a word of the caller's."""
    record(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert find_addresses().temporal == "127.0.0.1:1"


BROKEN: list[Any] = ["", "{", "[]", "7", "null", {}, {"temporal": "x", "postgres": 7}, {"temporal": {}}, "\udcff"[:0]]


@pytest.mark.parametrize("content", BROKEN, ids=repr)
def test_a_record_that_cannot_be_read_is_none(tmp_path: Path, content: Any) -> None:
    """It is half written, or of something else; the error says how to get one."""
    record(tmp_path, content)
    with pytest.raises(ServerUnavailable, match="perdure dev MODULE:APP"):
        find_addresses(folder=tmp_path)


@pytest.mark.parametrize(("given", "missing"), [(TEMPORAL, DATABASE), (DATABASE, TEMPORAL), (None, TEMPORAL)])
def test_the_one_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None, missing: str
) -> None:
    """Half an address is none."""
    if given is not None:
        monkeypatch.setenv(given, "x")
    with pytest.raises(ServerUnavailable, match=f"or set {missing}"):
        find_addresses(folder=tmp_path)


def test_the_password_is_not_shown() -> None:
    """Neither in a log nor in a traceback."""
    assert "secret" not in repr(ServerAddresses("h:1", "postgresql://u:secret@h/d"))
