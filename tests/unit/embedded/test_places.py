"""What the embedded servers keep and ask of the machine: ports, disk space, versions, records, command lines."""

from __future__ import annotations

import socket
import stat
from itertools import pairwise
from pathlib import Path

import pytest

from perdure.embedded.folder import NEEDED_BYTES, Folder, require_space
from perdure.embedded.ports import answers, reserved
from perdure.embedded.record import ServersRecord, TemporalRecord, read_record, write_private
from perdure.embedded.temporal import DYNAMIC_CONFIG, Temporal
from perdure.embedded.wheel import require_same_or_older
from perdure.errors import EmbeddedError


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_a_port_is_reserved_once() -> None:
    """Two starts at the same moment do not both believe that a port is theirs."""
    port = free_port()
    with reserved(port) as first, reserved(port) as second:
        assert (first, second) == (True, False)
    with reserved(port) as again:
        assert again


def test_a_port_that_is_listened_on_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert answers(port)
        with reserved(port) as is_free:
            assert not is_free
    assert not answers(port)


@pytest.mark.parametrize(("free", "is_enough"), [(NEEDED_BYTES, True), (NEEDED_BYTES - 1, False)])
def test_space_is_required(tmp_path: Path, free: int, is_enough: bool) -> None:
    if is_enough:
        require_space(tmp_path, free_bytes=lambda _: free)
    else:
        with pytest.raises(EmbeddedError, match=r"127 MB are free, the servers need 128 MB"):
            require_space(tmp_path, free_bytes=lambda _: free)


@pytest.mark.parametrize(
    ("made_by", "is_fine"),
    [("1.32.0", True), ("1.31.9", True), ("1.32.7", True), ("1.33.0", False), ("2.0", False), ("18", True)],
)
def test_only_older_data_are_opened(tmp_path: Path, made_by: str, is_fine: bool) -> None:
    """A patch is no other format, a minor or major may be."""
    ours = "18" if made_by == "18" else "1.32.1"
    if is_fine:
        require_same_or_older("X", tmp_path, made_by, ours)
    else:
        with pytest.raises(EmbeddedError, match=f"written by X {made_by}; the one installed is 1.32.1"):
            require_same_or_older("X", tmp_path, made_by, ours)


def test_a_record_is_private_and_comes_back(tmp_path: Path) -> None:
    record = ServersRecord(temporal=TemporalRecord(address="127.0.0.1:1", port=1, pid=None))
    path = tmp_path / "servers.json"
    write_private(path, record.model_dump_json())
    assert read_record(path) == record
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"", b"{", b'{"temporal": 1}', b"\xff"])
def test_a_damaged_record_is_no_record(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "servers.json"
    path.write_bytes(content)
    assert read_record(path) == read_record(tmp_path / "none") == ServersRecord()


def test_every_setting_reaches_the_command_line(tmp_path: Path) -> None:
    """Temporal gets each dynamic setting as JSON: a string keeps its quotes."""
    arguments = Temporal(Folder.of(tmp_path)).arguments(7000)
    pairs = set(pairwise(arguments))
    assert ("--dynamic-config-value", 'history.timerProcessorMaxTimeShift="10ms"') in pairs
    assert ("--dynamic-config-value", "system.enableActivityEagerExecution=true") in pairs
    assert len(DYNAMIC_CONFIG) == sum(name == "--dynamic-config-value" for name in arguments) == 11
    assert {("--port", "7000"), ("--ip", "127.0.0.1"), ("--sqlite-pragma", "journal_mode=wal")} <= pairs
