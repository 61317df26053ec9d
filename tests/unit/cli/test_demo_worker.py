"""The demo's worker process: what it is given, and that none outlives the demo."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perdure.cli.demo import run_demo
from perdure.cli.demo_worker import Workers, worker_environment
from perdure.embedded.servers import Addresses
from perdure.errors import InvalidInput, ServerUnavailable

ADDRESSES = Addresses("127.0.0.1:1", "postgresql://nobody:secret@127.0.0.1:1/none")


def test_a_worker_gets_the_demos_servers_and_none_of_the_users_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_TASK_QUEUE", "mine")
    monkeypatch.setenv("PERDURE_TEMPORAL_ADDRESS", "temporal.example.org:7233")
    monkeypatch.setenv("PERDURE_CI_RUN", "mark")
    given = worker_environment(Path("/audited"), Path("/work"), ADDRESSES)
    assert "PERDURE_TASK_QUEUE" not in given
    assert given["PERDURE_TEMPORAL_ADDRESS"] == ADDRESSES.temporal
    assert (given["PERDURE_DEMO_FOLDER"], given["PERDURE_DEMO_WORK"]) == ("/audited", "/work")
    assert given["PERDURE_CI_RUN"] == "mark"


async def test_a_worker_that_cannot_start_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    environment = {**os.environ, "PERDURE_TEMPORAL_ADDRESS": "nonsense"}
    crew = Workers(environment, tmp_path)
    with pytest.raises(ServerUnavailable, match=r"(?s)did not start\. It said:.*PERDURE_TEMPORAL_ADDRESS"):
        await crew.start()
    assert crew.lost.is_set()
    await crew.current.kill()


@pytest.mark.parametrize(
    ("name", "reason"), [("missing", "does not exist"), ("file", "is no folder"), ("x" * 300, "cannot be read")]
)
async def test_a_folder_that_is_none_is_refused_before_anything_starts(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match=f"{reason}.*; name the folder to audit"):
        await run_demo(tmp_path / name)
